#include "server/valkey/connection.h"

#include <hiredis/async.h>
#include <uv.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/valkey/backoff.h"
#include "server/valkey/event_adapter.h"
#include "server/valkey/pending.h"

namespace fairgate {
namespace {

using Clock = Pending::Clock;

constexpr uint64_t kTickMs = 5;

}  // namespace

class Connection::Loop final : private EventAdapter {
 public:
  explicit Loop(Options options)
      : options_(std::move(options)), backoff_(options_.backoff_min, options_.backoff_max) {
    uv_loop_init(&loop_);
    uv_async_init(&loop_, &wake_, [](uv_async_t* h) { static_cast<Loop*>(h->data)->OnWake(); });
    uv_timer_init(&loop_, &tick_);
    uv_timer_init(&loop_, &redial_);
    wake_.data = tick_.data = redial_.data = this;
    thread_ = std::thread([this] { Run(); });
  }

  void Submit(std::shared_ptr<const Command> command, absl::Duration timeout, Callback done) {
    auto pending = std::make_shared<Pending>();
    pending->command = std::move(command);
    pending->deadline = Clock::now() + absl::ToChronoMicroseconds(timeout);
    pending->done = std::move(done);
    if (SendAtOnce(pending)) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!stopping_) {
        queue_.push_back(std::move(pending));
        // One wake-up per batch: who comes while the loop has not looked yet rides along.
        if (queue_.size() == 1) uv_async_send(&wake_);
        return;
      }
    }
    pending->Answer(absl::UnavailableError("the store's connection is stopped"));
  }

  bool connected() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return connected_;
  }

  bool WaitConnected(absl::Duration timeout) const {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, absl::ToChronoMicroseconds(timeout), [this] {
      return connected_ || stopping_;
    }) && connected_;
  }

  void Stop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!stopping_) {
        stopping_ = true;
        uv_async_send(&wake_);
      }
    }
    changed_.notify_all();
    std::call_once(joined_, [this] { thread_.join(); });
  }

 private:
  void Run() {
    loop_thread_ = std::this_thread::get_id();
    {
      const std::lock_guard<std::mutex> lock(io_mutex_);
      Dial();
    }
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  // Sends from the caller's own thread, unless the loop is at work: then the loop sends it soon
  // with what else has come. Saves a lone command the time that it takes to wake a thread.
  bool SendAtOnce(const std::shared_ptr<Pending>& pending) {
    if (loop_thread_.load() ==
        std::this_thread::get_id()) {  // in a callback; the loop writes after
      return ready_ && Send(pending);
    }
    const std::unique_lock<std::mutex> lock(io_mutex_, std::try_to_lock);
    if (!lock.owns_lock() || !ready_) return false;
    batching_ = true;
    const bool sent = Send(pending);
    batching_ = false;
    if (!sent) return false;
    // Not by redisAsyncHandleWrite: what it does when the connection fails is the loop's business.
    int done = 0;
    const bool ok = redisBufferWrite(&context_->c, &done) == REDIS_OK;
    if (!ok || done == 0 || !ticking_) uv_async_send(&wake_);
    return true;
  }

  void OnWake() {
    const std::lock_guard<std::mutex> io(io_mutex_);
    std::deque<std::shared_ptr<Pending>> batch;
    bool stopping;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      batch.swap(queue_);
      stopping = stopping_;
    }
    batching_ = true;
    for (std::shared_ptr<Pending>& pending : batch) {
      if (stopping || !ready_) {
        pending->Answer(absl::UnavailableError(absl::StrCat("no connection: ", reason_)));
      } else if (!Send(pending)) {
        pending->Answer(absl::UnavailableError("the connection is closing"));
      }
    }
    Flush();
    if (owed_count_ > 0) StartTick();
    if (!stopping) return;
    closing_ = true;
    Drop("stopped");
    uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&redial_), nullptr);
  }

  // Written at once: to wait until the loop finds the socket writable takes another turn of it.
  void Flush() {
    batching_ = false;
    if (ready_ && context_ != nullptr) redisAsyncHandleWrite(context_);
  }

  // Adds to what is to be written; false: the connection takes nothing more.
  bool Send(const std::shared_ptr<Pending>& pending) {
    std::vector<const char*> data;
    std::vector<size_t> sizes;
    for (const std::string& arg : *pending->command) {
      data.push_back(arg.data());
      sizes.push_back(arg.size());
    }
    auto* held = new Held{this, pending};
    if (redisAsyncCommandArgv(context_, &Loop::OnReply, held, static_cast<int>(data.size()),
                              data.data(), sizes.data()) != REDIS_OK) {
      delete held;
      return false;
    }
    if (owed_count_ == 0) heard_ = Clock::now();
    ++owed_count_;
    sent_.Add(pending);
    pending->command.reset();
    return true;
  }

  void OnReady(const std::function<void()>& handle) override {
    const std::lock_guard<std::mutex> lock(io_mutex_);
    batching_ = true;
    handle();
    Flush();
  }

  void StartTick() {
    if (ticking_) return;
    ticking_ = true;
    uv_timer_start(
        &tick_, [](uv_timer_t* h) { static_cast<Loop*>(h->data)->OnTick(); }, kTickMs, kTickMs);
  }

  void OnTick() {
    const std::lock_guard<std::mutex> lock(io_mutex_);
    batching_ = true;
    const Clock::time_point now = Clock::now();
    sent_.AnswerLate(now);
    DropIfSilent(now);
    Flush();
    if (context_ == nullptr || (ready_ && owed_count_ == 0)) {
      ticking_ = false;
      uv_timer_stop(&tick_);
    }
  }

  void DropIfSilent(Clock::time_point now) {
    const bool silent = now - heard_ > absl::ToChronoMicroseconds(SilenceMax());
    if (context_ != nullptr && silent && (!ready_ || owed_count_ > 0)) {
      Drop("the store is silent");
    }
  }

  absl::Duration SilenceMax() const {
    return ready_ ? options_.silence_max : std::min(options_.handshake_max, options_.silence_max);
  }

  static Loop* LoopOf(const redisAsyncContext* context) {
    return static_cast<Loop*>(static_cast<EventAdapter*>(context->data));
  }

  struct Held {
    Loop* loop;
    std::shared_ptr<Pending> pending;
  };

  static void OnReply(redisAsyncContext* context, void* raw, void* data) {
    std::unique_ptr<Held> held(static_cast<Held*>(data));
    Loop& loop = *held->loop;
    const bool current = context == loop.context_;
    if (current && loop.owed_count_ > 0) --loop.owed_count_;
    if (raw == nullptr) {
      held->pending->Answer(absl::UnavailableError("the connection was lost"));
      return;
    }
    if (current) loop.heard_ = Clock::now();
    Reply reply = ToReply(*static_cast<const redisReply*>(raw));
    if (reply.type == Reply::Type::kError && CannotServe(reply.text)) {
      // A replica where a primary was: the address may lead elsewhere by now.
      if (current && reply.text.starts_with("READONLY")) loop.Drop(reply.text);
      held->pending->Answer(absl::UnavailableError(absl::StrCat("the store says ", reply.text)));
      return;
    }
    held->pending->Answer(std::move(reply));
  }

  void Redial() {
    const std::lock_guard<std::mutex> lock(io_mutex_);
    batching_ = false;
    Dial();
  }

  void Dial() {
    const ValkeyAddress& address = options_.address;
    redisAsyncContext* context = address.unix_socket.empty()
                                     ? redisAsyncConnect(address.host.c_str(), address.port)
                                     : redisAsyncConnectUnix(address.unix_socket.c_str());
    if (context == nullptr || context->err != 0 || !Attach(context, &loop_)) {
      reason_ = context != nullptr && context->err != 0 ? context->errstr : "cannot connect";
      if (context != nullptr) redisAsyncFree(context);
      Later();
      return;
    }
    context_ = context;
    owed_count_ = 0;
    heard_ = Clock::now();
    redisAsyncSetConnectCallback(context, [](const redisAsyncContext* c, int status) {
      auto* loop = LoopOf(c);
      if (status != REDIS_OK) loop->Lost(c);
    });
    redisAsyncSetDisconnectCallback(context,
                                    [](const redisAsyncContext* c, int) { LoopOf(c)->Lost(c); });
    StartTick();
    if (!address.password.empty()) {
      Command auth = {"AUTH"};
      if (!address.user.empty()) auth.push_back(address.user);
      auth.push_back(address.password);
      Greet(std::move(auth), false);
    }
    if (address.database != 0) Greet({"SELECT", absl::StrCat(address.database)}, false);
    // Connected means: answers. A server that loads its data or hangs is as good as none.
    Greet({"PING"}, true);
  }

  void Greet(Command command, bool last) {
    if (context_ == nullptr) return;
    auto pending = std::make_shared<Pending>();
    pending->command = std::make_shared<const Command>(std::move(command));
    pending->deadline = Clock::now() + absl::ToChronoMicroseconds(SilenceMax());
    redisAsyncContext* context = context_;
    pending->done = [this, last, context](absl::StatusOr<Reply> reply) {
      if (context != context_) return;
      if (!reply.ok()) return Drop(std::string(reply.status().message()));
      if (reply->type == Reply::Type::kError) return Drop(reply->text);
      if (!last) return;
      ready_ = true;
      backoff_.Reset();
      SetConnected(true);
    };
    if (!Send(pending)) Drop("the connection is closing");
  }

  // hiredis frees the context itself.
  void Lost(const redisAsyncContext* context) {
    if (context != context_) return;
    reason_ = context->err != 0 ? context->errstr : "the connection was closed";
    context_ = nullptr;
    Down();
  }

  void Drop(std::string reason) {
    reason_ = std::move(reason);
    redisAsyncContext* context = std::exchange(context_, nullptr);
    if (context == nullptr) return;
    Down();
    redisAsyncFree(context);  // answers what it owes
  }

  void Down() {
    owed_count_ = 0;
    ready_ = false;
    SetConnected(false);
    Later();
  }

  void Later() {
    if (closing_) return;
    uv_timer_start(
        &redial_, [](uv_timer_t* h) { static_cast<Loop*>(h->data)->Redial(); },
        static_cast<uint64_t>(absl::ToInt64Milliseconds(backoff_.Next())) + 1, 0);
  }

  void SetConnected(bool connected) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (connected_ == connected) return;
      connected_ = connected;
    }
    changed_.notify_all();
    if (options_.on_change) options_.on_change(connected);
  }

  const Options options_;

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::deque<std::shared_ptr<Pending>> queue_;
  bool stopping_ = false;
  bool connected_ = false;

  std::atomic<std::thread::id> loop_thread_;

  // Held by the loop whenever it is awake, and so in every callback; others only try it.
  std::mutex io_mutex_;
  // Guarded by io_mutex_, but libuv's own is the loop thread's alone.
  uv_loop_t loop_;
  uv_async_t wake_;
  uv_timer_t tick_;
  uv_timer_t redial_;
  redisAsyncContext* context_ = nullptr;
  bool ready_ = false;  // the handshake is over
  bool closing_ = false;
  bool ticking_ = false;
  std::string reason_ = "not yet connected";
  SentCommands sent_;
  size_t owed_count_ = 0;  // replies that the connection still owes
  Clock::time_point heard_;
  Backoff backoff_;

  std::once_flag joined_;
  std::thread thread_;
};

Connection::Connection(Options options) : loop_(std::make_unique<Loop>(std::move(options))) {}
Connection::~Connection() { Stop(); }

void Connection::Submit(std::shared_ptr<const Command> command, absl::Duration timeout,
                        Callback done) {
  loop_->Submit(std::move(command), timeout, std::move(done));
}
bool Connection::connected() const { return loop_->connected(); }
bool Connection::WaitConnected(absl::Duration timeout) const {
  return loop_->WaitConnected(timeout);
}
void Connection::Stop() { loop_->Stop(); }

}  // namespace fairgate
