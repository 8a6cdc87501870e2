#include "server/valkey/address.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace fairgate {
namespace {

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("store address: ", absl::string_view(what.data(), what.size()),
                   "; expected embedded, valkey://host:port or valkey+unix:///path"));
}

std::optional<std::string> PercentDecode(std::string_view text) {
  std::string out;
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit(text[i + 1]);
    const int low = digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return out;
}

bool ParseInt(std::string_view text, int least, int most, int* value) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), value) && *value >= least &&
         *value <= most;
}

}  // namespace

std::string ValkeyAddress::ToString() const {
  if (embedded) return "embedded";
  if (!unix_socket.empty()) return absl::StrCat("valkey+unix://", unix_socket);
  const bool v6 = host.find(':') != std::string::npos;
  std::string text = absl::StrCat("valkey://", v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
  if (database != 0) absl::StrAppend(&text, "/", database);
  return text;
}

absl::StatusOr<ValkeyAddress> ParseValkeyAddress(std::string_view text) {
  ValkeyAddress address;
  if (text == "embedded") {
    address.embedded = true;
    return address;
  }
  constexpr std::string_view kTcp = "valkey://";
  constexpr std::string_view kUnix = "valkey+unix://";
  const bool is_unix = text.starts_with(kUnix);
  if (!is_unix && !text.starts_with(kTcp)) return Wrong("unknown scheme");
  text.remove_prefix(is_unix ? kUnix.size() : kTcp.size());

  const size_t at = text.substr(0, text.find('/')).rfind('@');
  if (at != std::string_view::npos) {
    const std::string_view who = text.substr(0, at);
    text.remove_prefix(at + 1);
    const size_t colon = who.find(':');
    if (colon == std::string_view::npos) return Wrong("a user needs a password (user:password@)");
    std::optional<std::string> user = PercentDecode(who.substr(0, colon));
    std::optional<std::string> password = PercentDecode(who.substr(colon + 1));
    if (!user || !password) return Wrong("bad percent-encoding in user or password");
    if (password->empty()) return Wrong("the password is empty");
    address.user = *std::move(user);
    address.password = *std::move(password);
  }
  if (is_unix) {
    if (text.size() < 2 || text[0] != '/') return Wrong("the socket needs an absolute path");
    address.unix_socket = std::string(text);
    return address;
  }
  const size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view database = text.substr(slash + 1);
    text = text.substr(0, slash);
    if (!database.empty() && !ParseInt(database, 0, 1 << 20, &address.database)) {
      return Wrong("the database is not a number");
    }
  }
  std::string_view port;
  if (text.starts_with("[")) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return Wrong("a bracket is not closed");
    address.host = std::string(text.substr(1, end - 1));
    port = text.substr(end + 1);
  } else {
    const size_t colon = text.find(':');
    address.host = std::string(text.substr(0, colon));
    if (colon != std::string_view::npos) port = text.substr(colon);
  }
  if (address.host.empty()) return Wrong("no host");
  if (!port.empty() && (port[0] != ':' || !ParseInt(port.substr(1), 1, 65535, &address.port))) {
    return Wrong("the port is not a number from 1 to 65535");
  }
  return address;
}

}  // namespace fairgate
