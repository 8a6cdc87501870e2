// AdmissionStore on a Valkey primary: FCALLs of the library in server/lua. Decisions of one target
// that come at the same time share one.
#ifndef FAIRGATE_SERVER_STORE_VALKEY_STORE_H_
#define FAIRGATE_SERVER_STORE_VALKEY_STORE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/lua/scripts.h"
#include "server/store/admission_store.h"
#include "server/store/lanes.h"
#include "server/store/script_codec.h"
#include "server/valkey/connection.h"

namespace fairgate {

struct ValkeyStoreOptions {
  ValkeyAddress address;
  absl::Duration timeout = absl::Milliseconds(25);  // of a decision
  // Told of the connection's changes, on the store's thread.
  std::function<void(bool up)> on_change;
  // Seconds from sending to answer, by function name, and how many questions it answered.
  std::function<void(std::string_view function, size_t questions, double seconds)> on_evaluation;
  // Tests only: microseconds that replace the primary's TIME.
  std::function<TestClock()> clock;
};

class ValkeyStore final : public AdmissionStore {
 public:
  using Options = ValkeyStoreOptions;

  explicit ValkeyStore(Options options);

  void Admit(const AdmitQuery& query, Callback<Decision> done) override;
  void Release(const ReleaseQuery& query, Callback<ReleaseReport> done) override;
  void ReadPolicy(const std::string& target, Callback<StoredPolicy> done) override;
  void WritePolicy(const v1::TargetPolicy& policy, uint64_t expected_version,
                   Callback<uint64_t> done) override;
  void DeleteTarget(const std::string& target, uint64_t expected_version,
                    Callback<uint64_t> done) override;
  void Inspect(const std::string& target, uint32_t flows_max,
               Callback<v1::InspectTargetResponse> done) override;
  void ListTargets(Callback<std::vector<std::string>> done) override;
  void Heartbeat(const std::string& gate_id, absl::Duration lifetime,
                 Callback<uint32_t> done) override;

  bool connected() const { return connection_.connected(); }
  bool WaitConnected(absl::Duration timeout) const { return connection_.WaitConnected(timeout); }

 private:
  using Answer = std::function<void(absl::StatusOr<std::string>)>;

  // Runs a function on a target's keys. Only a missing one, which proves that nothing ran, is
  // loaded and sent again.
  void Evaluate(const lua::Function& function, const std::string& target,
                std::vector<std::string> arguments, absl::Duration limit,
                Connection::Callback done);
  // A function of one question.
  void EvaluateOne(const lua::Function& function, const std::string& target, std::string argument,
                   Answer done);
  // A decision: shares its evaluation with others of the target.
  void Ask(const std::string& target, std::string argument, Answer done);
  void SendBatch(const std::string& target, std::vector<Question> batch);
  // All of them in one evaluation; then `ended`, then the answers.
  void Decide(const std::string& target, std::vector<Question> batch, std::function<void()> ended);
  void Send(Command command, Connection::Callback done);
  // Limit of what is no decision: 1 s, or the timeout if that is longer.
  absl::Duration Patience() const;
  TestClock Clock() const { return options_.clock ? options_.clock() : std::nullopt; }

  const Options options_;
  Lanes lanes_;
  Connection connection_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_STORE_VALKEY_STORE_H_
