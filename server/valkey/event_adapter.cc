#include "server/valkey/event_adapter.h"

#include <hiredis/sds.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

// The adapter is C and does not care for our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <hiredis/adapters/libuv.h>
#pragma GCC diagnostic pop

namespace fairgate {

// What hiredis calls instead of the adapter's own functions.
struct EventAdapter::Hooks {
  static void OnPoll(uv_poll_t* handle, int status, int events) {
    auto* const context = static_cast<redisLibuvEvents*>(handle->data)->context;
    if (context == nullptr) return;
    static_cast<EventAdapter*>(context->data)->OnReady([&] {
      redisLibuvPoll(handle, status, events);
    });
  }

  static void Watch(redisLibuvEvents* watched, int events) {
    if (watched->events == events) return;
    watched->events = events;
    if (events != 0) {
      uv_poll_start(&watched->handle, events, &Hooks::OnPoll);
    } else {
      uv_poll_stop(&watched->handle);
    }
  }

  static void AddRead(void* data) {
    auto* const watched = static_cast<redisLibuvEvents*>(data);
    Watch(watched, watched->events | UV_READABLE);
  }
  static void DelRead(void* data) {
    auto* const watched = static_cast<redisLibuvEvents*>(data);
    Watch(watched, watched->events & ~UV_READABLE);
  }
  static void AddWrite(void* data) {
    auto* const watched = static_cast<redisLibuvEvents*>(data);
    if (static_cast<EventAdapter*>(watched->context->data)->batching_) return;
    Watch(watched, watched->events | UV_WRITABLE);
  }
  static void DelWrite(void* data) {
    auto* const watched = static_cast<redisLibuvEvents*>(data);
    Watch(watched, watched->events & ~UV_WRITABLE);
  }
};

namespace {

// As hiredis's own, without SIGPIPE, which would go to whichever thread writes.
ssize_t WriteQuietly(redisContext* context) {
  const ssize_t written = send(context->fd, context->obuf, sdslen(context->obuf), MSG_NOSIGNAL);
  if (written >= 0) return written;
  if (errno == EAGAIN || errno == EINTR) return 0;
  context->err = REDIS_ERR_IO;
  std::snprintf(context->errstr, sizeof(context->errstr), "write: %s",
                std::system_category().message(errno).c_str());
  return -1;
}

}  // namespace

bool EventAdapter::Attach(redisAsyncContext* context, uv_loop_t* loop) {
  if (redisLibuvAttach(context, loop) != REDIS_OK) return false;
  static const redisContextFuncs kFunctions = [](redisContextFuncs functions) {
    functions.write = &WriteQuietly;
    return functions;
  }(*context->c.funcs);
  context->c.funcs = &kFunctions;
  context->data = this;
  context->ev.addRead = &Hooks::AddRead;
  context->ev.delRead = &Hooks::DelRead;
  context->ev.addWrite = &Hooks::AddWrite;
  context->ev.delWrite = &Hooks::DelWrite;
  return true;
}

}  // namespace fairgate
