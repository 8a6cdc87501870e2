// What a server is told at its start: flags over the settings file over defaults.
#ifndef FAIRGATE_SERVER_SETTINGS_SETTINGS_H_
#define FAIRGATE_SERVER_SETTINGS_SETTINGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace fairgate {

struct Settings {
  std::string listen = "127.0.0.1:50051";         // gRPC; port 0: any free one
  std::string metrics_listen = "127.0.0.1:9464";  // HTTP /metrics; empty: off
  std::string state_dir = "fairgate-state";       // of the embedded store
  std::string store = "embedded";                 // or valkey://host:port, valkey+unix:///path
  absl::Duration store_timeout = absl::Milliseconds(25);  // per evaluation
  std::string policy_file;                                // empty: none
  bool policy_apply_always = false;                       // the file wins over the store
  absl::Duration hold_max = absl::Seconds(10);            // longest max_hold that is honoured
  std::vector<std::string> metrics_tenants;               // tenants with labels of their own
  std::string log_level = "info";                         // debug, info, warning, error
  absl::Duration drain_timeout = absl::Seconds(10);
  int completion_queue_threads = 1;
  std::string test_clock_file;  // tests only: the time as text, microseconds
};

struct ParsedSettings {
  Settings settings;
  bool exit_now = false;  // --help, --version: `text` is the answer
  std::string text;
};

// From the command line. A settings file (--config) has the same names with underscores; paths in
// it are relative to the file. kInvalidArgument says where and what is allowed.
absl::StatusOr<ParsedSettings> ParseSettings(int argc, const char* const* argv);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_SETTINGS_SETTINGS_H_
