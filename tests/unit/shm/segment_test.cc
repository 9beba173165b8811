#include "corehttpd/shm/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace corehttpd::shm {
namespace {

constexpr std::size_t kBytes = 10'000;

TEST(Segment, StartsZeroedBehindItsHeader) {
  const auto segment = Segment::create("test", 3, kBytes, 0xabcd);
  ASSERT_TRUE(segment);
  EXPECT_TRUE(static_cast<bool>(*segment));
  EXPECT_EQ(kBytes, segment->data_bytes());
  EXPECT_TRUE(std::all_of(segment->data(), segment->data() + kBytes,
                          [](std::byte b) { return b == std::byte{0}; }));
  Header header;
  ASSERT_EQ(64, pread(segment->fd(), &header, sizeof header, 0));
  EXPECT_EQ(Header::kMagic, header.magic);
  EXPECT_EQ(3U, header.layout_version);
  EXPECT_EQ(kBytes, header.data_bytes);
  EXPECT_EQ(0xabcdU, header.definition);
  EXPECT_EQ(FD_CLOEXEC, fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC);
}

TEST(Segment, SizeIsSealed) {
  const auto segment = Segment::create("test", 1, kBytes, 0);
  ASSERT_TRUE(segment);
  EXPECT_EQ(-1, ftruncate(segment->fd(), 64));
  EXPECT_EQ(EPERM, errno);
  EXPECT_EQ(-1, ftruncate(segment->fd(), 1'000'000));
  EXPECT_EQ(-1, fcntl(segment->fd(), F_ADD_SEALS, F_SEAL_WRITE));
}

TEST(Segment, IsSharedOverFork) {
  const auto segment = Segment::create("test", 1, kBytes, 0);
  ASSERT_TRUE(segment);
  const pid_t child = fork();
  if (child == 0) {
    segment->data()[kBytes - 1] = std::byte{42};
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(child, waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_EQ(std::byte{42}, segment->data()[kBytes - 1]);
}

TEST(Segment, AttachedSeesTheSameMemory) {
  const auto segment = Segment::create("test", 5, kBytes, 77);
  ASSERT_TRUE(segment);
  std::memcpy(segment->data(), "counter", 7);
  auto other = Segment::attach(dup(segment->fd()), 5, kBytes, 77);
  ASSERT_TRUE(other);
  EXPECT_EQ(0, std::memcmp(other->data(), "counter", 7));
  other->data()[0] = std::byte{'C'};
  EXPECT_EQ(std::byte{'C'}, segment->data()[0]);
}

TEST(Segment, AttachRefusesWhatDiffersAndLeavesTheDescriptor) {
  const auto segment = Segment::create("test", 5, kBytes, 77);
  ASSERT_TRUE(segment);
  const int fd = dup(segment->fd());
  const auto refused = [fd](std::uint32_t version, std::size_t bytes, std::uint64_t definition) {
    const auto attached = Segment::attach(fd, version, bytes, definition);
    return !attached && attached.error().code == Code::kMalformed;
  };
  EXPECT_TRUE(refused(6, kBytes, 77));
  EXPECT_TRUE(refused(5, kBytes + 1, 77));
  EXPECT_TRUE(refused(5, kBytes - 1, 77));
  EXPECT_TRUE(refused(5, SIZE_MAX - 63, 77));
  EXPECT_TRUE(refused(5, kBytes, 78));
  EXPECT_NE(-1, fcntl(fd, F_GETFD));
  EXPECT_TRUE(Segment::attach(fd, 5, kBytes, 77));
  EXPECT_EQ(-1, fcntl(fd, F_GETFD)) << "taken over, and closed with the segment";
}

TEST(Segment, AttachRefusesForeignMemory) {
  // The right size, sealed, but without our header.
  const int zeros = memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(0, ftruncate(zeros, 64 + kBytes));
  ASSERT_EQ(0, fcntl(zeros, F_ADD_SEALS, F_SEAL_SHRINK));
  const auto foreign = Segment::attach(zeros, 1, kBytes, 0);
  ASSERT_FALSE(foreign);
  EXPECT_EQ(Code::kMalformed, foreign.error().code);
  close(zeros);
  // Our header, but anybody could cut it short.
  const int loose = memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_EQ(0, ftruncate(loose, 64 + kBytes));
  const Header header{Header::kMagic, 1, kBytes, 0, {}};
  ASSERT_EQ(64, pwrite(loose, &header, sizeof header, 0));
  EXPECT_FALSE(Segment::attach(loose, 1, kBytes, 0));
  close(loose);
  EXPECT_FALSE(Segment::attach(-1, 1, kBytes, 0));
}

TEST(Segment, TooLargeForItsHeaderIsRefused) {
  const auto segment = Segment::create("test", 1, std::size_t{UINT32_MAX} + 1, 0);
  ASSERT_FALSE(segment);
  EXPECT_EQ(Code::kTooLarge, segment.error().code);
}

TEST(Segment, MovesItsDescriptorAlong) {
  auto segment = Segment::create("test", 1, kBytes, 0);
  ASSERT_TRUE(segment);
  const int fd = segment->fd();
  Segment other = std::move(*segment);
  EXPECT_FALSE(static_cast<bool>(*segment));
  EXPECT_EQ(fd, other.fd());
  Segment third;
  third = std::move(other);
  EXPECT_EQ(kBytes, third.data_bytes());
  third = Segment();
  EXPECT_FALSE(static_cast<bool>(third));
  EXPECT_EQ(-1, fcntl(fd, F_GETFD));
}

}  // namespace
}  // namespace corehttpd::shm
