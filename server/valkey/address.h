// Where the store is, as settings and flags spell it.
#ifndef FAIRGATE_SERVER_VALKEY_ADDRESS_H_
#define FAIRGATE_SERVER_VALKEY_ADDRESS_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace fairgate {

struct ValkeyAddress {
  bool embedded = false;    // the server starts its own store; all else is empty
  std::string unix_socket;  // absolute path; empty: TCP
  std::string host;
  int port = 6379;
  std::string user;  // empty: the default user
  std::string password;
  int database = 0;

  // For people and logs: never holds the password.
  std::string ToString() const;
};

// Takes `embedded`, `valkey://[user:password@]host[:port][/db]` and
// `valkey+unix://[user:password@]/path`. IPv6 hosts stand in brackets; user and password may be
// percent-encoded. kInvalidArgument says what is wrong, without the password.
absl::StatusOr<ValkeyAddress> ParseValkeyAddress(std::string_view text);

}  // namespace fairgate

#endif  // FAIRGATE_SERVER_VALKEY_ADDRESS_H_
