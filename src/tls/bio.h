// The library's view of a Stream: reads take what was received, writes queue what is to be sent.
#pragma once

#include "tls/openssl.h"

namespace corehttpd::tls {

class Stream;

// Owned by the SSL object that it is given to.
BIO* make_stream_bio(Stream& stream);

}  // namespace corehttpd::tls
