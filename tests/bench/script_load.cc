// Load on a Valkey server: a pipelined EVALSHA of one script over a Unix socket, with a fixed
// number in flight. Prints one JSON object.
//
// The script gets the keys as given, ARGV[1] = an id that is new each time, ARGV[2] = filler.
#include <hiredis/async.h>
#include <uv.h>

// The adapter is C and does not care for our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wunused-function"
#include <hiredis/adapters/libuv.h>
#pragma GCC diagnostic pop

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/latencies.h"

namespace fairgate::bench {
namespace {

struct Options {
  std::string socket;
  std::string script_file;
  std::string id_prefix;
  std::vector<std::string> keys;
  int in_flight = 64;
  double seconds = 1;
  double warmup_s = 0.2;
  size_t filler_bytes = 100;
};

class Load {
 public:
  explicit Load(const Options& options) : options_(options), filler_(options.filler_bytes, 'f') {}

  int Run() {
    if (!LoadScript()) return 1;
    uv_loop_init(&loop_);
    context_ = redisAsyncConnectUnix(options_.socket.c_str());
    if (context_ == nullptr || context_->err != 0 || redisLibuvAttach(context_, &loop_) != REDIS_OK)
      return 1;
    start_ = Clock::now() + After(options_.warmup_s);
    end_ = start_ + After(options_.seconds);
    started_.resize(static_cast<size_t>(options_.in_flight));
    open_ = started_.size();
    for (Slot& slot : started_) {
      slot.load = this;
      Ask(&slot);
    }
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
    if (!error_.empty()) std::fprintf(stderr, "script_load: %s\n", error_.c_str());
    return error_.empty() ? 0 : 1;
  }

 private:
  struct Slot {
    Load* load = nullptr;
    Clock::time_point start;
  };

  static Clock::duration After(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  bool LoadScript() {
    std::ifstream in(options_.script_file);
    std::stringstream text;
    text << in.rdbuf();
    redisContext* const context = redisConnectUnix(options_.socket.c_str());
    if (context == nullptr || context->err != 0) return false;
    const std::string script = text.str();
    auto* const reply = static_cast<redisReply*>(
        redisCommand(context, "SCRIPT LOAD %b", script.data(), script.size()));
    const bool good = reply != nullptr && reply->type == REDIS_REPLY_STRING;
    if (good) sha1_.assign(reply->str, reply->len);
    if (!good)
      std::fprintf(stderr, "script_load: %s\n", reply != nullptr ? reply->str : context->errstr);
    freeReplyObject(reply);
    redisFree(context);
    return good;
  }

  void Ask(Slot* slot) {
    const std::string id = absl::StrFormat("%s/%010d", options_.id_prefix, next_number_++);
    arguments_.assign({"EVALSHA", sha1_, absl::StrCat(options_.keys.size())});
    arguments_.insert(arguments_.end(), options_.keys.begin(), options_.keys.end());
    arguments_.insert(arguments_.end(), {id, filler_});
    data_.clear();
    sizes_.clear();
    for (const std::string& argument : arguments_) {
      data_.push_back(argument.data());
      sizes_.push_back(argument.size());
    }
    slot->start = Clock::now();
    redisAsyncCommandArgv(context_, &Load::OnReply, slot, static_cast<int>(data_.size()),
                          data_.data(), sizes_.data());
  }

  static void OnReply(redisAsyncContext*, void* raw, void* data) {
    auto* const slot = static_cast<Slot*>(data);
    slot->load->Take(static_cast<const redisReply*>(raw), slot);
  }

  void Take(const redisReply* reply, Slot* slot) {
    const Clock::time_point now = Clock::now();
    ++answers_;
    latencies_.Add(now - slot->start);
    if (reply == nullptr || reply->type == REDIS_REPLY_ERROR) {
      error_ = reply != nullptr ? std::string(reply->str, reply->len) : "the connection was lost";
      if (reply == nullptr) return;
    }
    if (!warm_ && now >= start_) {
      warm_ = true;
      start_ = now;
      latencies_.Clear();
    }
    if ((now < end_ || latencies_.count() == 0) && error_.empty()) return Ask(slot);
    if (open_ == started_.size()) Print(now);
    if (--open_ == 0) redisAsyncDisconnect(context_);
  }

  void Print(Clock::time_point now) {
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const size_t calls = latencies_.count();
    absl::PrintF(
        "{\"calls\": %d, \"seconds\": %.4f, \"calls_per_s\": %.1f, %s, \"answers\": %d, "
        "\"errors\": %d}\n",
        calls, seconds, static_cast<double>(calls) / seconds, latencies_.Json(""), answers_,
        error_.empty() ? 0 : 1);
  }

  const Options& options_;
  const std::string filler_;
  std::string sha1_;
  uv_loop_t loop_;
  redisAsyncContext* context_ = nullptr;
  std::vector<Slot> started_;
  size_t open_ = 0;
  uint64_t next_number_ = 0;
  uint64_t answers_ = 0;  // those of the warm-up too
  Clock::time_point start_, end_;
  bool warm_ = false;
  Latencies latencies_;
  std::string error_;
  std::vector<std::string> arguments_;  // kept between calls for their memory
  std::vector<const char*> data_;
  std::vector<size_t> sizes_;
};

}  // namespace
}  // namespace fairgate::bench

int main(int argc, char** argv) {
  CLI::App app("Load on a Valkey server: one script, pipelined");
  fairgate::bench::Options options;
  app.add_option("socket", options.socket, "path of the Unix socket")->required();
  app.add_option("--script", options.script_file, "file with the script")->required();
  app.add_option("--key", options.keys, "a key; once for each");
  app.add_option("--id-prefix", options.id_prefix, "of the ids; one per run, or ids repeat");
  app.add_option("--in-flight", options.in_flight)->check(CLI::Range(1, 100000));
  app.add_option("--seconds", options.seconds)->check(CLI::Range(0.01, 3600.0));
  app.add_option("--warmup", options.warmup_s, "seconds before the count starts")
      ->check(CLI::Range(0.0, 60.0));
  app.add_option("--filler-bytes", options.filler_bytes, "size of ARGV[2]");
  CLI11_PARSE(app, argc, argv);
  return fairgate::bench::Load(options).Run();
}
