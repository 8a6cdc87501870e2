#include "server/store/keyspace.h"

namespace fairgate {

std::string EscapeTarget(std::string_view target) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : target) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f && c != '{' && c != '}' && c != '%') {
      out.push_back(c);
    } else {
      out.push_back('%');
      out.push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 15]);
    }
  }
  return out;
}

std::vector<std::string> TargetKeys(std::string_view target) {
  const std::string prefix = "fg:{" + EscapeTarget(target) + "}:";
  std::vector<std::string> keys;
  for (const char* part :
       {"policy", "state", "flows", "order", "calls", "due", "expiry", "caps", "window"}) {
    keys.push_back(prefix + part);
  }
  return keys;
}

}  // namespace fairgate
