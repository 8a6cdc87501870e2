// hiredis on a libuv loop: as its own adapter, but whoever uses it runs what hiredis does when the
// socket is ready, and may keep it from watching for a moment to write in, which takes a system
// call each time.
#ifndef FAIRGATE_SERVER_VALKEY_EVENT_ADAPTER_H_
#define FAIRGATE_SERVER_VALKEY_EVENT_ADAPTER_H_

#include <hiredis/async.h>
#include <uv.h>

#include <functional>

namespace fairgate {

class EventAdapter {
 public:
  virtual ~EventAdapter() = default;

 protected:
  // Takes `context->data`, which then points to this adapter. False: the loop takes no more.
  bool Attach(redisAsyncContext* context, uv_loop_t* loop);

  // On the loop's thread. `handle` lets hiredis read or write; it may free the context.
  virtual void OnReady(const std::function<void()>& handle) = 0;

  // While true, hiredis does not ask to be told when it may write: the owner writes by itself.
  bool batching_ = false;

 private:
  struct Hooks;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_EVENT_ADAPTER_H_
