#include "server/metrics/bounded_labels.h"

#include <string>

#include "gtest/gtest.h"

namespace fairgate {
namespace {

TEST(BoundedLabels, ClassesAndDimensionsAreBoundedByTarget) {
  BoundedLabels labels(10, {});
  const std::string* const first = &labels.Class("t", "0");
  for (int i = 1; i < 128; ++i) labels.Class("t", std::to_string(i));
  EXPECT_EQ(labels.Class("t", "one more"), "other");
  EXPECT_EQ(&labels.Class("t", "0"), first);  // at the address that stands for it
  EXPECT_EQ(labels.Class("u", "one more"), "one more");
  for (int i = 0; i < 32; ++i) EXPECT_NE(labels.Dimension("t", std::to_string(i)), "other");
  EXPECT_EQ(labels.Dimension("t", "one more"), "other");
}

}  // namespace
}  // namespace fairgate
