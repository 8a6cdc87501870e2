// Who owns whom in a server, the order of its start and of its drain.
#ifndef FAIRGATE_SERVER_APP_H_
#define FAIRGATE_SERVER_APP_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "fairgate/v1/policy.pb.h"
#include "server/settings/settings.h"

namespace fairgate {

// Start, then Upkeep about once a second, then Stop; all from one thread.
class App {
 public:
  explicit App(Settings settings);
  ~App();  // as Stop()
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  // Serves when it returns OK. kInvalidArgument: the settings or the policy file are wrong;
  // everything else: the environment (a port that is taken, no valkey-server, a script that fails
  // its self-test). A remote store that is away is no failure.
  absl::Status Start();

  // What waits for the store to come back: the self-test after a fault, the policy file, health.
  void Upkeep();

  // Drains: no new calls, those in flight finish, at most the drain timeout. Idempotent.
  void Stop();

  // "127.0.0.1:50051"; after Start().
  const std::string& address() const;
  // Empty: not exposed.
  const std::string& metrics_address() const;
  // For people: where the server listens, where its state is, what to try next.
  std::string Greeting() const;

 private:
  struct Parts;

  absl::Status StartStore();
  void StartGate();
  absl::Status ReadPolicyFile();
  absl::Status Prove();
  absl::Status Seed();
  absl::Status StartServer();
  absl::Status StartExposer();

  const Settings settings_;
  std::vector<v1::TargetPolicy> file_policies_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_APP_H_
