// An intrusive doubly linked list. Objects derive from ListHook (or hold one per list, told apart
// by Tag); the list owns nothing. A hook unlinks itself when it is destroyed, so a list never holds
// a dead object.
#pragma once

#include <cstddef>

namespace corehttpd {

struct DefaultTag {};

template <class Tag = DefaultTag>
class ListHook {
 public:
  ListHook() = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { unlink(); }
  bool linked() const { return next_ != nullptr; }
  void unlink() {
    if (next_ == nullptr) return;
    prev_->next_ = next_;
    next_->prev_ = prev_;
    next_ = prev_ = nullptr;
  }

 private:
  template <class T, class U>
  friend class List;
  ListHook* prev_ = nullptr;
  ListHook* next_ = nullptr;
};

template <class T, class Tag = DefaultTag>
class List {
 public:
  using Hook = ListHook<Tag>;
  List() { head_.prev_ = head_.next_ = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() {
    while (!empty()) static_cast<Hook&>(front()).unlink();
    head_.prev_ = head_.next_ = nullptr;
  }
  bool empty() const { return head_.next_ == &head_; }
  T& front() { return *static_cast<T*>(head_.next_); }
  T& back() { return *static_cast<T*>(head_.prev_); }
  void push_back(T& item) { insert(&head_, item); }
  void push_front(T& item) { insert(head_.next_, item); }
  T* pop_front() {
    if (empty()) return nullptr;
    T& item = front();
    static_cast<Hook&>(item).unlink();
    return &item;
  }
  // Moves everything from other to our tail, in order.
  void splice_back(List& other) {
    if (other.empty()) return;
    Hook* first = other.head_.next_;
    Hook* last = other.head_.prev_;
    other.head_.prev_ = other.head_.next_ = &other.head_;
    first->prev_ = head_.prev_;
    head_.prev_->next_ = first;
    last->next_ = &head_;
    head_.prev_ = last;
  }
  // The item after this one, nullptr at the end. Take it before unlinking the item.
  T* next(T& item) {
    Hook* hook = static_cast<Hook&>(item).next_;
    return hook == &head_ ? nullptr : static_cast<T*>(hook);
  }
  T* first() { return empty() ? nullptr : &front(); }
  std::size_t count() const {
    std::size_t n = 0;
    for (const Hook* h = head_.next_; h != &head_; h = h->next_) ++n;
    return n;
  }

 private:
  void insert(Hook* before, T& item) {
    Hook& hook = static_cast<Hook&>(item);
    hook.unlink();
    hook.prev_ = before->prev_;
    hook.next_ = before;
    before->prev_->next_ = &hook;
    before->prev_ = &hook;
  }
  Hook head_;
};

}  // namespace corehttpd
