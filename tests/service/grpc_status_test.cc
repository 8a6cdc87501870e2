#include "server/service/grpc_status.h"

#include "absl/status/status.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

namespace fairgate {
namespace {

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  return details;
}

TEST(ToGrpcStatus, OkHasNoDetails) {
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).error_details().empty());
}

TEST(ToGrpcStatus, BadRequestNamesEveryField) {
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError(
      "cost[a: b]: must be finite\ntenant: is required\nsomething else: went wrong"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  google::rpc::BadRequest bad;
  ASSERT_EQ(Details(status).details_size(), 1);
  ASSERT_TRUE(Details(status).details(0).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 3);
  EXPECT_EQ(bad.field_violations(0).field(), "cost[a: b]");
  EXPECT_EQ(bad.field_violations(0).description(), "must be finite");
  EXPECT_EQ(bad.field_violations(1).field(), "tenant");
  EXPECT_EQ(bad.field_violations(2).field(), "");
  EXPECT_EQ(bad.field_violations(2).description(), "something else: went wrong");
}

TEST(ToGrpcStatus, EveryCode) {
  struct Case {
    absl::Status from;
    grpc::StatusCode to;
    const char* reason;
  };
  const Case cases[] = {
      {absl::NotFoundError("x"), grpc::StatusCode::NOT_FOUND, "TARGET_UNKNOWN"},
      {absl::AbortedError("x"), grpc::StatusCode::ABORTED, "VERSION_CONFLICT"},
      {absl::FailedPreconditionError("x"), grpc::StatusCode::FAILED_PRECONDITION,
       "POLICY_NOT_APPLICABLE"},
      {absl::UnavailableError("x"), grpc::StatusCode::UNAVAILABLE, "STORE_UNAVAILABLE"},
      {absl::InternalError("x"), grpc::StatusCode::INTERNAL, "SERVER_FAULT"},
      {absl::UnknownError("x"), grpc::StatusCode::INTERNAL, "SERVER_FAULT"},
      {absl::DataLossError("x"), grpc::StatusCode::INTERNAL, "SERVER_FAULT"},
      {absl::CancelledError("x"), grpc::StatusCode::CANCELLED, ""},
      {absl::DeadlineExceededError("x"), grpc::StatusCode::DEADLINE_EXCEEDED, ""},
      {absl::ResourceExhaustedError("x"), grpc::StatusCode::RESOURCE_EXHAUSTED, ""},
      {absl::AlreadyExistsError("x"), grpc::StatusCode::ALREADY_EXISTS, ""},
  };
  for (const Case& test : cases) {
    const grpc::Status status = ToGrpcStatus(test.from);
    EXPECT_EQ(status.error_code(), test.to) << test.from;
    const google::rpc::Status details = Details(status);
    if (test.reason[0] == '\0') {
      EXPECT_EQ(details.details_size(), 0) << test.from;
      continue;
    }
    google::rpc::ErrorInfo info;
    ASSERT_EQ(details.details_size(), 1) << test.from;
    ASSERT_TRUE(details.details(0).UnpackTo(&info));
    EXPECT_EQ(info.reason(), test.reason);
    EXPECT_EQ(info.domain(), kErrorDomain);
  }
}

TEST(ToGrpcStatus, InsidesStayInside) {
  EXPECT_EQ(ToGrpcStatus(absl::InternalError("user_script:12: nil")).error_message().find("nil"),
            std::string::npos);
}

}  // namespace
}  // namespace fairgate
