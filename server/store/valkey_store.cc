#include "server/store/valkey_store.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/core/policy.h"
#include "server/store/keyspace.h"

namespace fairgate {
namespace {

using Type = Reply::Type;

// An error reply that is not about the server's condition is our own fault.
absl::StatusOr<Reply> Expect(absl::StatusOr<Reply> reply, Type type) {
  if (!reply.ok()) return reply;
  if (reply->type == Type::kError) return absl::InternalError("store: " + reply->text);
  if (reply->type != type) return absl::InternalError("store: a reply of the wrong kind");
  return reply;
}

bool IsMissingFunction(const Reply& reply) {
  return reply.type == Type::kError && absl::StartsWith(reply.text, "ERR Function not found");
}

}  // namespace

ValkeyStore::ValkeyStore(Options options)
    : options_(std::move(options)), connection_([this] {
        Connection::Options connection;
        connection.address = options_.address;
        connection.on_change = options_.on_change;
        return connection;
      }()) {}

void ValkeyStore::Send(Command command, Connection::Callback done) {
  connection_.Submit(std::move(command), Patience(), std::move(done));
}

// A caller of Admit has its own work to do; who changes or reads a policy would rather have it.
absl::Duration ValkeyStore::Patience() const {
  return std::max(options_.timeout, absl::Seconds(1));
}

void ValkeyStore::Evaluate(const lua::Function& function, const std::string& target,
                           std::vector<std::string> arguments, absl::Duration limit,
                           Connection::Callback done) {
  std::vector<std::string> keys = TargetKeys(target);
  Command command = {"FCALL", std::string(function.function), absl::StrCat(keys.size())};
  command.reserve(command.size() + keys.size() + arguments.size());
  std::move(keys.begin(), keys.end(), std::back_inserter(command));
  std::move(arguments.begin(), arguments.end(), std::back_inserter(command));
  auto call = std::make_shared<const Command>(std::move(command));
  const absl::Time start = absl::Now();
  auto finish = [this, &function, start, questions = arguments.size(),
                 done = std::move(done)](absl::StatusOr<Reply> reply) {
    if (options_.on_evaluation) {
      options_.on_evaluation(function.name, questions, absl::ToDoubleSeconds(absl::Now() - start));
    }
    done(std::move(reply));
  };
  auto check = [this, start, limit, call,
                finish = std::move(finish)](absl::StatusOr<Reply> reply) mutable {
    if (!reply.ok() || !IsMissingFunction(*reply)) return finish(std::move(reply));
    // Only this proves that nothing ran. Whoever finds the library loaded by another is as well
    // off. The caller's limit is one for both.
    const absl::Duration left = limit - (absl::Now() - start);
    connection_.Submit(Command{"FUNCTION", "LOAD", std::string(lua::kLibrary)}, left,
                       [](absl::StatusOr<Reply>) {});
    connection_.Submit(call, left, std::move(finish));
  };
  connection_.Submit(call, limit, std::move(check));
}

void ValkeyStore::EvaluateOne(const lua::Function& function, const std::string& target,
                              std::string argument, Answer done) {
  Evaluate(function, target, {std::move(argument)}, Patience(),
           [done = std::move(done)](absl::StatusOr<Reply> reply) {
             reply = Expect(std::move(reply), Type::kString);
             if (!reply.ok()) return done(reply.status());
             done(std::move(reply->text));
           });
}

void ValkeyStore::Ask(const std::string& target, std::string argument, Answer done) {
  SendBatch(target, lanes_.Add(target, {std::move(argument), absl::Now() + options_.timeout,
                                        std::move(done)}));
}

void ValkeyStore::SendBatch(const std::string& target, std::vector<Question> batch) {
  if (batch.empty()) return;
  Decide(target, std::move(batch), [this, target] { SendBatch(target, lanes_.Next(target)); });
}

void ValkeyStore::Decide(const std::string& target, std::vector<Question> batch,
                         std::function<void()> ended) {
  std::vector<std::string> arguments;
  absl::Time deadline = absl::InfiniteFuture();
  for (Question& question : batch) {
    arguments.push_back(question.argument);
    deadline = std::min(deadline, question.deadline);
  }
  Evaluate(lua::kDecide, target, std::move(arguments), deadline - absl::Now(),
           [this, target, batch = std::move(batch),
            ended = std::move(ended)](absl::StatusOr<Reply> reply) mutable {
             ended();  // first: the store need not wait for these answers
             reply = Expect(std::move(reply), Type::kArray);
             if (reply.ok() && reply->elements.size() != batch.size()) {
               reply = absl::InternalError("store: another number of answers than questions");
             }
             if (absl::IsInternal(reply.status()) && batch.size() > 1) {
               // An evaluation that fails leaves no records: the others need not suffer from one.
               for (Question& question : batch) {
                 std::vector<Question> alone;
                 alone.push_back(std::move(question));
                 Decide(target, std::move(alone), [] {});
               }
               return;
             }
             for (size_t i = 0; i < batch.size(); ++i) {
               auto answer = reply.ok() ? Expect(std::move(reply->elements[i]), Type::kString)
                                        : absl::StatusOr<Reply>(reply.status());
               if (answer.ok()) {
                 batch[i].done(std::move(answer->text));
               } else {
                 batch[i].done(answer.status());
               }
             }
           });
}

void ValkeyStore::Admit(const AdmitQuery& query, Callback<Decision> done) {
  Ask(query.target, EncodeAdmit(query, Clock()),
      [id = query.request_id, attempt = query.attempt,
       done = std::move(done)](absl::StatusOr<std::string> answer) mutable {
        absl::StatusOr<Decision> decision =
            answer.ok() ? DecodeAdmit(*answer) : absl::StatusOr<Decision>(answer.status());
        if (decision.ok()) {
          decision->request_id = std::move(id);
          decision->attempt = attempt;
        }
        done(std::move(decision));
      });
}

void ValkeyStore::Release(const ReleaseQuery& query, Callback<ReleaseReport> done) {
  Ask(query.target, EncodeRelease(query, Clock()),
      [done = std::move(done)](absl::StatusOr<std::string> answer) {
        done(answer.ok() ? DecodeRelease(*answer) : answer.status());
      });
}

void ValkeyStore::ReadPolicy(const std::string& target, Callback<StoredPolicy> done) {
  Send({"HMGET", TargetKeys(target)[0], "source", "version"},
       [target, done = std::move(done)](absl::StatusOr<Reply> reply) {
         reply = Expect(std::move(reply), Type::kArray);
         if (!reply.ok()) return done(reply.status());
         if (reply->elements.size() != 2 || reply->elements[0].type == Type::kNil) {
           return done(absl::NotFoundError(absl::StrCat("no target \"", target, "\"")));
         }
         StoredPolicy stored;
         if (!stored.policy.ParseFromString(reply->elements[0].text) ||
             !absl::SimpleAtoi(reply->elements[1].text, &stored.version)) {
           return done(absl::InternalError("the stored policy cannot be read"));
         }
         done(std::move(stored));
       });
}

void ValkeyStore::WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                              Callback<uint64_t> done) {
  auto compiled = CompilePolicy(policy);
  if (!compiled.ok()) return done(compiled.status());
  std::string argument =
      EncodeConfigure(*compiled, policy.SerializeAsString(), expected_version, Clock());
  // The list of targets comes first: it may name a target that is not there, never miss one.
  Send({"SADD", kTargetsKey, policy.name()},
       [this, name = policy.name(), argument = std::move(argument),
        done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
         reply = Expect(std::move(reply), Type::kInteger);
         if (!reply.ok()) return done(reply.status());
         EvaluateOne(lua::kConfigure, name, std::move(argument),
                     [done = std::move(done)](absl::StatusOr<std::string> answer) {
                       done(answer.ok() ? DecodeConfigure(*answer) : answer.status());
                     });
       });
}

void ValkeyStore::DeleteTarget(const std::string& target, uint64_t expected_version,
                               Callback<uint64_t> done) {
  EvaluateOne(lua::kConfigure, target, EncodeDelete(expected_version, Clock()),
              [this, target, done = std::move(done)](absl::StatusOr<std::string> answer) {
                auto version = answer.ok() ? DecodeConfigure(*answer) : answer.status();
                if (!version.ok()) return done(std::move(version));
                Send({"SREM", kTargetsKey, target},
                     [done, version](absl::StatusOr<Reply>) { done(version); });
              });
}

void ValkeyStore::Inspect(const std::string& target, uint32_t flows_max,
                          Callback<v1::InspectTargetResponse> done) {
  EvaluateOne(lua::kInspect, target, EncodeInspect(flows_max, Clock()),
              [target, done = std::move(done)](absl::StatusOr<std::string> answer) {
                auto state = answer.ok() ? DecodeInspect(*answer) : answer.status();
                if (absl::IsNotFound(state.status())) {
                  state = absl::NotFoundError(absl::StrCat("no target \"", target, "\""));
                }
                done(std::move(state));
              });
}

void ValkeyStore::ListTargets(Callback<std::vector<std::string>> done) {
  Send({"SMEMBERS", kTargetsKey}, [done = std::move(done)](absl::StatusOr<Reply> reply) {
    reply = Expect(std::move(reply), Type::kArray);
    if (!reply.ok()) return done(reply.status());
    std::vector<std::string> names;
    for (Reply& item : reply->elements) names.push_back(std::move(item.text));
    std::sort(names.begin(), names.end());
    done(std::move(names));
  });
}

void ValkeyStore::Heartbeat(const std::string& gate_id, absl::Duration lifetime,
                            Callback<uint32_t> done) {
  // By the store's own clock, so that gates need not agree on the time.
  static constexpr char kBeat[] =
      "local t = redis.call('TIME') local now = t[1] * 1000 + math.floor(t[2] / 1000) "
      "redis.call('ZADD', KEYS[1], now, ARGV[1]) "
      "redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2]) "
      "return redis.call('ZCARD', KEYS[1])";
  Send({"EVAL", kBeat, "1", kGatesKey, gate_id, absl::StrCat(absl::ToInt64Milliseconds(lifetime))},
       [done = std::move(done)](absl::StatusOr<Reply> reply) {
         reply = Expect(std::move(reply), Type::kInteger);
         if (!reply.ok()) return done(reply.status());
         done(static_cast<uint32_t>(std::max<int64_t>(reply->integer, 1)));
       });
}

}  // namespace fairgate
