// The commands. Each registers itself at the program; its run function answers the exit code.
#ifndef FAIRGATE_CLIENT_CLI_COMMANDS_H_
#define FAIRGATE_CLIENT_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>

#include "client/cli/gate.h"

namespace fairgate::cli {

// The program with the options that all commands share. `run` is set by the command that was given.
struct Program {
  CLI::App app{"Ask a Fairgate gate, and run it.", "fairgate"};
  GlobalOptions options;
  std::function<int()> run;
};

void AddAdmit(Program& program);
void AddRelease(Program& program);
void AddApply(Program& program);
void AddInspect(Program& program);  // inspect and targets
void AddHealth(Program& program);
void AddLoad(Program& program);

}  // namespace fairgate::cli

#endif  // FAIRGATE_CLIENT_CLI_COMMANDS_H_
