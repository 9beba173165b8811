// Work to be done at the end of the current turn of the loop. What re-entrancy would make dangerous
// (a source becoming ready while it is being read, an object that destroys itself in its own
// callback) is posted here instead. The loop owns the queue and runs it.
#pragma once

#include "corehttpd/base/list.h"

namespace corehttpd {

struct TurnTag {};

// Embedded in the object that wants the work. Destroying it withdraws it.
class TurnTask : public ListHook<TurnTag> {
 public:
  using Run = void (*)(TurnTask&);
  explicit TurnTask(Run run) : run_(run) {}
  void run() { run_(*this); }

 private:
  Run run_;
};

class TurnQueue {
 public:
  // Posting twice is once.
  void post(TurnTask& task) {
    if (!task.linked()) tasks_.push_back(task);
  }
  // Posted last of all: destruction of objects that other tasks of this turn may still name.
  void post_destroy(TurnTask& task) {
    if (!task.linked()) destroys_.push_back(task);
  }
  bool empty() const { return tasks_.empty() && destroys_.empty(); }
  // Runs tasks, also those posted meanwhile up to a bound, then destroys. True if work is left for
  // the next turn.
  bool run();

 private:
  List<TurnTask, TurnTag> tasks_;
  List<TurnTask, TurnTag> destroys_;
};

}  // namespace corehttpd
