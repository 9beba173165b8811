#include "tls/bio.h"

#include "corehttpd/base/check.h"
#include "tls/stream_callbacks.h"

namespace corehttpd::tls {
namespace {

long control(BIO*, int command, long, void*) {
  // All else, end of file and kernel TLS among it, is nothing of ours.
  return command == BIO_CTRL_FLUSH || command == BIO_CTRL_DUP ? 1 : 0;
}

int create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

BIO_METHOD* make_method() {
  BIO_METHOD* method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "corehttpd stream");
  CORE_CHECK(method != nullptr);
  BIO_meth_set_create(method, create);
  BIO_meth_set_read_ex(method, StreamCallbacks::bio_read);
  BIO_meth_set_write_ex(method, StreamCallbacks::bio_write);
  BIO_meth_set_ctrl(method, control);
  return method;
}

}  // namespace

BIO* make_stream_bio(Stream& stream) {
  static BIO_METHOD* const method = make_method();
  BIO* bio = BIO_new(method);
  if (bio != nullptr) BIO_set_data(bio, &stream);
  return bio;
}

int StreamCallbacks::bio_read(BIO* bio, char* into, std::size_t length, std::size_t* got) {
  BIO_clear_retry_flags(bio);
  auto& stream = *static_cast<Stream*>(BIO_get_data(bio));
  *got = stream.take_input(reinterpret_cast<std::byte*>(into), length);
  if (*got != 0) return 1;
  BIO_set_retry_read(bio);
  return 0;
}

int StreamCallbacks::bio_write(BIO* bio, const char* from, std::size_t length, std::size_t* put) {
  BIO_clear_retry_flags(bio);
  auto& stream = *static_cast<Stream*>(BIO_get_data(bio));
  *put = 0;
  if (!stream.put_output(reinterpret_cast<const std::byte*>(from), length)) return 0;
  *put = length;
  return 1;
}

}  // namespace corehttpd::tls
