#include "server/settings/settings.h"

#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "server/version.h"

namespace fairgate {
namespace {

// One setting: how its text becomes a value; empty: done, else what is allowed.
using Setter = std::function<std::string(Settings*, const std::string&)>;

struct Option {
  const char* name;  // with underscores; the flag has dashes
  const char* help;
  bool path = false;  // relative to the settings file
  bool hidden = false;
  Setter set;
  std::function<std::string(const Settings&)> show = {};  // as text; absent: there is no default
};

std::function<std::string(const Settings&)> Show(std::string Settings::*member) {
  return [member](const Settings& s) { return s.*member; };
}
std::function<std::string(const Settings&)> Show(absl::Duration Settings::*member) {
  return [member](const Settings& s) { return absl::FormatDuration(s.*member); };
}

Setter Text(std::string Settings::*member) {
  return [member](Settings* s, const std::string& v) { return s->*member = v, std::string(); };
}

Setter Wait(absl::Duration Settings::*member, absl::Duration low, absl::Duration high) {
  return [=](Settings* s, const std::string& v) -> std::string {
    absl::Duration d;
    if (!absl::ParseDuration(v, &d) || d < low || d > high) {
      return absl::StrCat("must be a duration from ", absl::FormatDuration(low), " to ",
                          absl::FormatDuration(high));
    }
    s->*member = d;
    return "";
  };
}

const std::vector<Option>& Options() {
  static const std::vector<Option> kOptions = {
      {"listen", "Address for gRPC", false, false, Text(&Settings::listen),
       Show(&Settings::listen)},
      {"metrics_listen", "Address for /metrics, or off", false, false,
       [](Settings* s, const std::string& v) {
         return s->metrics_listen = v == "off" ? "" : v, std::string();
       },
       Show(&Settings::metrics_listen)},
      {"state_dir", "Directory of the embedded store", true, false, Text(&Settings::state_dir),
       Show(&Settings::state_dir)},
      {"store", "embedded, valkey://[[user]:password@]host[:port] or valkey+unix:///path", false,
       false, Text(&Settings::store), Show(&Settings::store)},
      {"store_timeout", "Limit of one evaluation", false, false,
       Wait(&Settings::store_timeout, absl::Milliseconds(1), absl::Seconds(10)),
       Show(&Settings::store_timeout)},
      {"policy_file", "Targets that the store lacks are seeded from here", true, false,
       Text(&Settings::policy_file)},
      {"policy_apply", "seed: the store wins where they differ; always: the file wins", false,
       false,
       [](Settings* s, const std::string& v) -> std::string {
         if (v != "seed" && v != "always") return "must be seed or always";
         s->policy_apply_always = v == "always";
         return "";
       },
       [](const Settings& s) { return s.policy_apply_always ? "always" : "seed"; }},
      {"hold_max", "Longest max_hold that is honoured", false, false,
       Wait(&Settings::hold_max, absl::ZeroDuration(), absl::Hours(1)), Show(&Settings::hold_max)},
      {"metrics_tenants",
       "Tenants with labels of their own, separated by commas",
       false,
       false,
       [](Settings* s, const std::string& v) -> std::string {
         s->metrics_tenants = absl::StrSplit(v, ',', absl::SkipWhitespace());
         return s->metrics_tenants.size() > 100 ? "must be at most 100 names" : "";
       },
       {}},
      {"log_level", "debug, info, warning or error", false, false,
       [](Settings* s, const std::string& v) -> std::string {
         s->log_level = v;
         return v == "debug" || v == "info" || v == "warning" || v == "error"
                    ? ""
                    : "must be debug, info, warning or error";
       },
       Show(&Settings::log_level)},
      {"drain_timeout", "How long calls in flight may finish at shutdown", false, false,
       Wait(&Settings::drain_timeout, absl::ZeroDuration(), absl::Minutes(10)),
       Show(&Settings::drain_timeout)},
      {"completion_queue_threads", "Threads that serve Admit and Release", false, false,
       [](Settings* s, const std::string& v) -> std::string {
         return absl::SimpleAtoi(v, &s->completion_queue_threads) &&
                        s->completion_queue_threads >= 1 && s->completion_queue_threads <= 64
                    ? ""
                    : "must be 1 to 64";
       },
       [](const Settings& s) { return absl::StrCat(s.completion_queue_threads); }},
      {"test_clock_file", "Tests only", false, true, Text(&Settings::test_clock_file), {}},
  };
  return kOptions;
}

absl::Status ReadFile(const std::string& path, Settings* settings) {
  std::ifstream in(path);
  if (!in) return absl::InvalidArgumentError(absl::StrCat("--config: ", path, " cannot be read"));
  std::stringstream text;
  text << in.rdbuf();
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  try {
    const YAML::Node root = YAML::Load(text.str());
    if (root.IsNull()) return absl::OkStatus();
    if (!root.IsMap()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":1: must be a map of settings"));
    }
    std::map<std::string, int> seen;
    for (const auto& entry : root) {
      const auto name = entry.first.as<std::string>("");
      const std::string at = absl::StrCat(path, ":", entry.first.Mark().line + 1, ": ", name, ": ");
      const Option* option = nullptr;
      for (const Option& o : Options()) {
        if (name == o.name && !o.hidden) option = &o;
      }
      if (option == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrCat(at, "unknown setting; allowed: ",
                         absl::StrJoin(Options(), ", ", [](std::string* out, const Option& o) {
                           if (!o.hidden) out->append(o.name);
                         })));
      }
      if (seen[name]++ > 0) return absl::InvalidArgumentError(at + "stands there twice");
      std::string value;
      if (entry.second.IsSequence()) {
        value = absl::StrJoin(entry.second.as<std::vector<std::string>>(), ",");
      } else if (entry.second.IsScalar()) {
        value = entry.second.Scalar();
      } else if (!entry.second.IsNull()) {
        return absl::InvalidArgumentError(at + "must be a single value");
      }
      if (option->path && !value.empty()) value = (folder / value).string();
      if (const std::string wrong = option->set(settings, value); !wrong.empty()) {
        return absl::InvalidArgumentError(absl::StrCat(at, wrong, ", got \"", value, "\""));
      }
    }
  } catch (const YAML::Exception& e) {
    return absl::InvalidArgumentError(absl::StrCat(path, ":", e.mark.line + 1, ": ", e.msg));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ParsedSettings> ParseSettings(int argc, const char* const* argv) {
  ParsedSettings parsed;
  // systemd names the service's own directory
  if (const char* state = std::getenv("STATE_DIRECTORY")) parsed.settings.state_dir = state;
  CLI::App app{"fairgate-server decides who may call an external API, and when."};
  app.set_version_flag("--version", std::string(kVersion));
  std::string config;
  app.add_option("--config", config, "Settings file (YAML)");
  std::map<std::string, std::string> flags;
  for (const Option& option : Options()) {
    std::string flag = option.name;
    for (char& c : flag) c = c == '_' ? '-' : c;
    CLI::Option* const added = app.add_option("--" + flag, flags[option.name], option.help);
    added->group(option.hidden ? "" : "Settings");
    if (option.show) added->default_str(option.show(parsed.settings));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    parsed.exit_now = true;
    std::ostringstream out, err;
    app.exit(success, out, err);
    parsed.text = out.str();
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (!config.empty()) {
    if (absl::Status status = ReadFile(config, &parsed.settings); !status.ok()) return status;
  }
  for (const Option& option : Options()) {
    std::string flag = option.name;
    for (char& c : flag) c = c == '_' ? '-' : c;
    if (app.count("--" + flag) == 0) continue;
    if (const std::string wrong = option.set(&parsed.settings, flags[option.name]);
        !wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": ", wrong, ", got \"", flags[option.name], "\""));
    }
  }
  return parsed;
}

}  // namespace fairgate
