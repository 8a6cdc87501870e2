// What happens in the block of an admission, and what is told of its answer.
#ifndef FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_BLOCK_H_
#define FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_BLOCK_H_

#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "fairgate/client.h"
#include "tests/conformance/drivers/cpp/json.h"

namespace fairgate::conformance {

// The caller was cancelled.
struct CancelledError {};

client::Response ToResponse(const Struct& from);

void Describe(const client::Answer& told, Struct& answer);
void DescribeError(const absl::Status& status, Struct& answer);

// CancelledError: stopped before.
void Sleep(absl::Duration duration, const std::stop_token& stop);

// Does what the command's body says, and leaves by its end or by what it throws; either settles.
void InBlock(client::Admission& admission, const Struct& command, std::stop_source& caller,
             Struct& answer);

}  // namespace fairgate::conformance

#endif  // FAIRGATE_TESTS_CONFORMANCE_DRIVERS_CPP_BLOCK_H_
