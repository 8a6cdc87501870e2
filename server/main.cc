// fairgate-server. Exit codes: 0 after SIGTERM or SIGINT; 1 the server cannot start (port, store,
// self-test); 2 wrong flags, settings or policy file.
#include <google/protobuf/stubs/logging.h>

#include <csignal>
#include <ctime>
#include <iostream>
#include <utility>

#include "absl/status/status.h"
#include "server/app.h"
#include "server/settings/settings.h"

namespace {

constexpr int kExitCannotStart = 1;
constexpr int kExitBadSettings = 2;

}  // namespace

int main(int argc, char** argv) {
  // All threads inherit the mask, so that only sigtimedwait below sees these.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  // Else every call with a name that is no UTF-8 is a line on standard error.
  google::protobuf::SetLogHandler(nullptr);

  absl::StatusOr<fairgate::ParsedSettings> parsed = fairgate::ParseSettings(argc, argv);
  if (!parsed.ok()) {
    std::cerr << "fairgate-server: " << parsed.status().message() << "\n";
    return kExitBadSettings;
  }
  if (parsed->exit_now) {
    std::cout << parsed->text;
    return 0;
  }
  fairgate::App app(std::move(parsed->settings));
  const absl::Status started = app.Start();
  if (!started.ok()) {
    std::cerr << "fairgate-server: " << started.message() << "\n";
    return absl::IsInvalidArgument(started) ? kExitBadSettings : kExitCannotStart;
  }
  std::cout << app.Greeting() << std::flush;

  const timespec second = {1, 0};
  while (sigtimedwait(&stop, nullptr, &second) < 0) {
    app.Upkeep();
  }
  // A second signal ends the process at once.
  pthread_sigmask(SIG_UNBLOCK, &stop, nullptr);
  app.Stop();
  return 0;
}
