#include "server/valkey/connection.h"

#include <hiredis/async.h>
#include <pthread.h>
#include <signal.h>
#include <uv.h>

// The adapter is C and does not care for our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <hiredis/adapters/libuv.h>
#pragma GCC diagnostic pop

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace fairgate {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kTickMs = 5;

struct Pending {
  std::shared_ptr<const Command> command;  // until it is sent
  Clock::time_point deadline;
  Connection::Callback done;  // empty once answered

  void Answer(absl::StatusOr<Reply> reply) {
    if (!done) return;
    Connection::Callback callback = std::exchange(done, nullptr);
    callback(std::move(reply));
  }
};

// The server is there but cannot serve now; nothing of it is a verdict.
bool CannotServe(std::string_view error) {
  static constexpr std::string_view kCodes[] = {
      "LOADING", "READONLY",    "BUSY",       "OOM",        "MOVED",
      "ASK",     "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN"};
  const std::string_view code = error.substr(0, error.find(' '));
  return std::find(std::begin(kCodes), std::end(kCodes), code) != std::end(kCodes);
}

Reply ToReply(const redisReply& from) {
  Reply to;
  switch (from.type) {
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      to.type = Reply::Type::kString;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_ERROR:
      to.type = Reply::Type::kError;
      to.text.assign(from.str, from.len);
      break;
    case REDIS_REPLY_INTEGER:
      to.type = Reply::Type::kInteger;
      to.integer = from.integer;
      break;
    case REDIS_REPLY_ARRAY:
      to.type = Reply::Type::kArray;
      for (size_t i = 0; i < from.elements; ++i) to.elements.push_back(ToReply(*from.element[i]));
      break;
    default:
      break;
  }
  return to;
}

}  // namespace

class Connection::Loop {
 public:
  explicit Loop(Options options) : options_(std::move(options)), backoff_(options_.backoff_min) {
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
    // hiredis writes without MSG_NOSIGNAL; the signal would go to this thread.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    Dial();
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
  }

  void OnWake() {
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
      } else {
        Send(pending);
      }
    }
    batching_ = false;
    // Written at once: to wait until the loop finds the socket writable takes another turn of it.
    if (ready_ && context_ != nullptr) redisAsyncHandleWrite(context_);
    if (!stopping) return;
    closing_ = true;
    Drop("stopped");
    uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&tick_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&redial_), nullptr);
  }

  void Send(const std::shared_ptr<Pending>& pending) {
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
      pending->Answer(absl::UnavailableError("the connection is closing"));
      return;
    }
    if (owed_count_ == 0) heard_ = Clock::now();
    ++owed_count_;
    owed_.push_back(pending);
    pending->command.reset();
    StartTick();
  }

  // The adapter changes the poll set at each call, which takes a system call; mostly there is no
  // need, as OnWake() writes all there is.
  static void AddWrite(void* data) {
    const auto* const events = static_cast<redisLibuvEvents*>(data);
    if (!static_cast<Loop*>(events->context->data)->batching_) redisLibuvAddWrite(data);
  }
  static void DelWrite(void* data) {
    if (static_cast<redisLibuvEvents*>(data)->events & UV_WRITABLE) redisLibuvDelWrite(data);
  }

  void StartTick() {
    if (uv_is_active(reinterpret_cast<uv_handle_t*>(&tick_))) return;
    uv_timer_start(
        &tick_, [](uv_timer_t* h) { static_cast<Loop*>(h->data)->OnTick(); }, kTickMs, kTickMs);
  }

  void OnTick() {
    const Clock::time_point now = Clock::now();
    // Deadlines differ, so all are looked at; what is answered leaves, in order.
    std::deque<std::shared_ptr<Pending>> waiting;
    waiting.swap(owed_);
    std::vector<std::shared_ptr<Pending>> late;
    for (std::shared_ptr<Pending>& pending : waiting) {
      if (!pending->done) continue;
      (pending->deadline <= now ? late.emplace_back() : owed_.emplace_back()) = std::move(pending);
    }
    for (const std::shared_ptr<Pending>& pending : late) {
      pending->Answer(absl::UnavailableError("the store did not answer in time"));
    }
    const bool silent = now - heard_ > absl::ToChronoMicroseconds(SilenceMax());
    if (context_ != nullptr && silent && (!ready_ || owed_count_ > 0)) {
      Drop("the store is silent");
    }
    if (context_ == nullptr || (ready_ && owed_count_ == 0)) uv_timer_stop(&tick_);
  }

  absl::Duration SilenceMax() const {
    return ready_ ? options_.silence_max : std::min(options_.handshake_max, options_.silence_max);
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

  void Dial() {
    const ValkeyAddress& address = options_.address;
    redisAsyncContext* context = address.unix_socket.empty()
                                     ? redisAsyncConnect(address.host.c_str(), address.port)
                                     : redisAsyncConnectUnix(address.unix_socket.c_str());
    if (context == nullptr || context->err != 0 || redisLibuvAttach(context, &loop_) != REDIS_OK) {
      reason_ = context != nullptr && context->err != 0 ? context->errstr : "cannot connect";
      if (context != nullptr) redisAsyncFree(context);
      Later();
      return;
    }
    context->data = this;
    context->ev.addWrite = &Loop::AddWrite;
    context->ev.delWrite = &Loop::DelWrite;
    context_ = context;
    owed_count_ = 0;
    heard_ = Clock::now();
    redisAsyncSetConnectCallback(context, [](const redisAsyncContext* c, int status) {
      auto* loop = static_cast<Loop*>(c->data);
      if (status != REDIS_OK) loop->Lost(c);
    });
    redisAsyncSetDisconnectCallback(
        context, [](const redisAsyncContext* c, int) { static_cast<Loop*>(c->data)->Lost(c); });
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
      backoff_ = options_.backoff_min;
      SetConnected(true);
    };
    Send(pending);
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
    std::uniform_real_distribution<double> jitter(0.5, 1.0);
    const absl::Duration delay = backoff_ * jitter(random_);
    backoff_ = std::min(backoff_ * 2, options_.backoff_max);
    uv_timer_start(
        &redial_, [](uv_timer_t* h) { static_cast<Loop*>(h->data)->Dial(); },
        static_cast<uint64_t>(absl::ToInt64Milliseconds(delay)) + 1, 0);
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

  // Of the loop thread.
  uv_loop_t loop_;
  uv_async_t wake_;
  uv_timer_t tick_;
  uv_timer_t redial_;
  redisAsyncContext* context_ = nullptr;
  bool ready_ = false;  // the handshake is over
  bool closing_ = false;
  bool batching_ = false;  // commands are added that are written together
  std::string reason_ = "not yet connected";
  std::deque<std::shared_ptr<Pending>> owed_;  // sent, maybe answered
  size_t owed_count_ = 0;                      // replies that the connection still owes
  Clock::time_point heard_;
  absl::Duration backoff_;
  std::minstd_rand random_{std::random_device{}()};

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
