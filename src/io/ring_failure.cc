#include <cerrno>

#include "corehttpd/io/loop.h"

namespace corehttpd::io {

const char* explain_ring_failure(int errno_value) {
  switch (errno_value) {
    case EPERM:
    case EACCES:
      return "io_uring is forbidden here. Either the sysctl kernel.io_uring_disabled is not 0 "
             "(remedy: sysctl -w "
             "kernel.io_uring_disabled=0, or 1 with the group in kernel.io_uring_group), or the "
             "container's seccomp profile "
             "blocks it, as the default ones of Docker, containerd and Kubernetes do (remedy: a "
             "profile that allows "
             "io_uring_setup, io_uring_enter and io_uring_register)";
    case ENOSYS:
      return "this kernel has no io_uring. Linux 6.1 or newer with CONFIG_IO_URING is needed; "
             "sandboxes that imitate a kernel "
             "(gVisor) and some seccomp profiles hide it";
    case EINVAL:
      return "this kernel's io_uring is too old. Linux 6.1 or newer is needed";
    case ENOMEM:
      return "there is not enough memory for the io_uring. Either the control group's limit is "
             "reached (systemd: MemoryMax=), or "
             "the limit on locked memory is too low (remedy: LimitMEMLOCK= or ulimit -l)";
    case EMFILE:
    case ENFILE:
      return "no file descriptor is left for the io_uring (remedy: LimitNOFILE= or ulimit -n)";
    default:
      return "the io_uring could not be set up";
  }
}

}  // namespace corehttpd::io
