// Bytes of a client into a server's TLS stream, over the simulated loop. The first byte chooses how
// the loop cuts and delays transfers, and who the client is: the input itself, or the library, of
// whose bytes the input changes some on their way. Each input meets a key that was made when the
// process began. Nothing may crash, leak, or be left open when the client has gone.
#include <cstddef>
#include <cstdint>
#include <string>

#include "../unit/tls/stream_fixture.h"
#include "corehttpd/base/check.h"

namespace corehttpd::tls::testing {
namespace {

// Triples: how many bytes to leave as they are (two bytes), what to change the next one by; 0 cuts
// the rest off, once.
struct Changes {
  std::basic_string_view<std::uint8_t> rest;
  std::size_t skip = 0;
  bool cut = false;

  static void apply(std::string& bytes, void* context) {
    auto& self = *static_cast<Changes*>(context);
    std::size_t at = 0;
    if (self.cut) bytes.clear();
    while (self.rest.size() >= 3) {
      const std::size_t wanted = (std::size_t{self.rest[0]} << 8 | self.rest[1]) - self.skip;
      if (bytes.size() - at <= wanted) {
        self.skip += bytes.size() - at;
        return;
      }
      at += wanted;
      self.skip = 0;
      const std::uint8_t by = self.rest[2];
      self.rest.remove_prefix(3);
      if (by == 0) {
        bytes.resize(at);
        self.cut = true;
        return;
      }
      bytes[at] = static_cast<char>(static_cast<std::uint8_t>(bytes[at]) ^ by);
      ++at;
    }
  }
};

}  // namespace
}  // namespace corehttpd::tls::testing

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace corehttpd;
  using namespace corehttpd::tls::testing;
  if (size == 0) return 0;
  const std::uint8_t mode = data[0];
  Site& site = (mode & 16) != 0 ? Site::early() : Site::quick();
  io::SimLoop loop(io::SimOptions{.seed = mode,
                                  .short_transfers = (mode & 1) != 0,
                                  .delays = (mode & 2) != 0,
                                  .window_bytes = 4000});
  io::SimPeer& peer = loop.connect_pair();
  {
    Echo echo(loop, peer.fd(), site);
    if ((mode & 4) == 0) {
      peer.push({reinterpret_cast<const char*>(data + 1), size - 1});
      CORE_CHECK(loop.run_until_blocked());
    } else {
      Changes changes{{data + 1, size - 1}};
      Client client(peer, (mode & 8) != 0 ? TLS1_2_VERSION : TLS1_3_VERSION,
                    std::string(3000, 'x'));
      client.change = Changes::apply;
      client.change_context = &changes;
      for (int idle = 0; idle < 3;) {
        CORE_CHECK(loop.run_until_blocked());
        idle = client.pump(700) ? 0 : idle + 1;
      }
      // Unchanged, every byte comes back.
      CORE_CHECK(size > 3 || client.received.size() == 3000);
    }
    if (!echo.closed()) peer.finish();
    CORE_CHECK(loop.run_until_quiet());
    echo.close();
    CORE_CHECK(loop.run_until_quiet());
    CORE_CHECK(echo.closed());
  }
  CORE_CHECK(loop.outstanding() == 0);
  CORE_CHECK(loop.blocks().in_use() == 0);
  return 0;
}
