#include "io/event_records.hpp"

#include <array>

#include "support/catch.hpp"
#include "support/event_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

TEST_CASE("the CRC-32C is that of the published vectors", "[io][events]") {
  CHECK(crc32c("123456789") == 0xe3069283);  // the check value of CRC-32/ISCSI
  CHECK(crc32c("") == 0);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, section B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
}

TEST_CASE("records of an event file are read back", "[io][events]") {
  const std::int64_t step = (std::int64_t{1} << 40) + 5;  // a number of six bytes
  const std::array scalars = {EventScalar{"train/loss", 0.25F},
                              EventScalar{"validation/" + std::string(200, 'a'), -3e-30F}};
  const std::string content =
      version_record(1.5e9) + start_record(1.5e9, 301) + scalars_record(1500000000.125, step, scalars);
  const std::vector<ReadEvent> events = read_events(content);
  REQUIRE(events.size() == 3);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].time == 1.5e9);
  CHECK_FALSE(events[0].is_start);
  CHECK(events[1].is_start);
  CHECK(events[1].step == 301);
  CHECK(events[2].time == 1500000000.125);
  CHECK(events[2].step == step);
  REQUIRE(events[2].scalars.size() == 2);
  for (const EventScalar& scalar : scalars) CHECK(events[2].scalars.at(scalar.tag) == scalar.value);
}

TEST_CASE("a record has the bytes of the format", "[io][events]") {
  // An Event with the time 1.0, the step 0 and an empty Summary, after its length and a checksum of that.
  const std::string record = scalars_record(1, 0, {});
  const std::string event("\x09\0\0\0\0\0\0\xf0\x3f\x10\0\x2a\0", 13);
  REQUIRE(record.size() == 8 + 4 + event.size() + 4);
  CHECK(record.substr(0, 8) == std::string("\x0d\0\0\0\0\0\0\0", 8));
  CHECK(record.substr(12, event.size()) == event);
}
