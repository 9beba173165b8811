#include "corehttpd/base/turn.h"

namespace corehttpd {

bool TurnQueue::run() {
  // Tasks may post tasks; a bound keeps two that wake each other from starving the sockets.
  constexpr int kRoundsMax = 64;
  for (int round = 0; round < kRoundsMax && !tasks_.empty(); ++round) {
    List<TurnTask, TurnTag> batch;
    batch.splice_back(tasks_);
    while (TurnTask* task = batch.pop_front()) task->run();
  }
  // A task left over may still name an object on the destroy list, which then waits as well.
  if (!tasks_.empty()) return true;
  while (TurnTask* task = destroys_.pop_front()) task->run();
  return !empty();
}

}  // namespace corehttpd
