#include "corehttpd/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <utility>

namespace corehttpd::shm {
namespace {

// Neither size may change while somebody has it mapped: access beyond a shrunk end would raise
// SIGBUS. The seals themselves are sealed, so that this stays true for every later process.
constexpr int kSeals = F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;

void* map(int fd, std::size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

}  // namespace

Segment::Segment(Segment&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  return *this;
}

Segment::~Segment() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

Result<Segment> Segment::create(std::string_view name, std::uint32_t layout_version,
                                std::size_t data_bytes, std::uint64_t definition) {
  if (data_bytes > UINT32_MAX) return fail(Code::kTooLarge, "shared memory segment");
  Segment segment;
  segment.fd_ = memfd_create(std::string(name).c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment.fd_ < 0) return std::unexpected(error_from_errno(errno, "memfd_create()"));
  const std::size_t bytes = sizeof(Header) + data_bytes;
  if (ftruncate(segment.fd_, static_cast<off_t>(bytes)) < 0)
    return std::unexpected(error_from_errno(errno, "ftruncate()"));
  if (fcntl(segment.fd_, F_ADD_SEALS, kSeals) < 0)
    return std::unexpected(error_from_errno(errno, "fcntl(F_ADD_SEALS)"));
  void* base = map(segment.fd_, bytes);
  if (base == MAP_FAILED) return std::unexpected(error_from_errno(errno, "mmap()"));
  segment.base_ = static_cast<std::byte*>(base);
  segment.bytes_ = bytes;
  new (base) Header{
      Header::kMagic, layout_version, static_cast<std::uint32_t>(data_bytes), definition, {}};
  return segment;
}

Result<Segment> Segment::attach(int fd, std::uint32_t layout_version, std::size_t data_bytes,
                                std::uint64_t definition) {
  struct stat status {};
  if (fstat(fd, &status) < 0) return std::unexpected(error_from_errno(errno, "fstat()"));
  const std::size_t bytes = sizeof(Header) + data_bytes;
  if (static_cast<std::uint64_t>(status.st_size) != bytes)
    return fail(Code::kMalformed, "shared memory of another size");
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(Code::kMalformed, "shared memory that is not sealed");
  void* base = map(fd, bytes);
  if (base == MAP_FAILED) return std::unexpected(error_from_errno(errno, "mmap()"));
  Segment segment;
  segment.base_ = static_cast<std::byte*>(base);
  segment.bytes_ = bytes;
  const auto& header = *static_cast<const Header*>(base);
  if (header.magic != Header::kMagic || header.data_bytes != data_bytes) {
    return fail(Code::kMalformed, "shared memory that is not ours");
  }
  if (header.layout_version != layout_version)
    return fail(Code::kMalformed, "shared memory of another layout version");
  if (header.definition != definition)
    return fail(Code::kMalformed, "shared memory of another definition");
  segment.fd_ = fd;  // Taken over only now: after a failure it is still the caller's.
  return segment;
}

}  // namespace corehttpd::shm
