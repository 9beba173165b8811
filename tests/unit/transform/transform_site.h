// A site whose responses pass all transforms of this directory, in nginx's order.
#pragma once

#include <string>

#include "corehttpd/handlers/files.h"
#include "corehttpd/transform/gzip.h"
#include "corehttpd/transform/transforms.h"
#include "support/file_site.h"

namespace corehttpd::transform {

inline test::FileSite make_site(const std::string& text) {
  return test::FileSite("root $DIR; " + text,
                        {&assets::module(), &handlers::index_module(), &fields_module(),
                         &charset_module(), &gzip_module()},
                        {handlers::index(), handlers::static_file()},
                        {&conditional(), &fields(), &charset(), &gzip(), &range()});
}

}  // namespace corehttpd::transform
