#include "server/store/keyspace.h"

#include <gtest/gtest.h>

#include <set>

namespace fairgate {
namespace {

TEST(KeyspaceTest, ATargetsNameCannotBreakTheHashTag) {
  const std::string evil = std::string("a}b{c%7D") + '\0' + "\n";
  EXPECT_EQ(EscapeTarget(evil), "a%7Db%7Bc%257D%00%0A");
  for (const std::string& key : TargetKeys(evil)) {
    EXPECT_EQ(key.find('{'), 3U);
    EXPECT_EQ(key.rfind('{'), 3U);
    EXPECT_EQ(key.find('}'), key.rfind('}'));
  }
}

TEST(KeyspaceTest, DifferentTargetsHaveDifferentKeys) {
  std::set<std::string> keys;
  for (const char* name : {"a", "a}", "a%7D", "{a", "A", "a:policy"}) {
    for (std::string& key : TargetKeys(name)) EXPECT_TRUE(keys.insert(std::move(key)).second);
  }
}

}  // namespace
}  // namespace fairgate
