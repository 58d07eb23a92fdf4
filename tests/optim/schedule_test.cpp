#include "orthornn/optim/schedule.hpp"

#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "orthornn/core/error.hpp"
#include "support/catch.hpp"

using namespace orthornn;

namespace {

// Values near 1 from a handful of operations in double, each good to 1.1e-16.
constexpr double schedule_rounding = 1e-15;

bool close(double found, double expected) { return std::abs(found - expected) <= schedule_rounding; }

}  // namespace

TEST_CASE("A default schedule leaves the rates alone", "[schedule]") {
  const Schedule schedule;
  CHECK(schedule.factor(0) == 1);
  CHECK(schedule.factor(1'000'000'000'000) == 1);
}

TEST_CASE("Warm-up rises linearly, moves at once, and is over after its last step", "[schedule]") {
  const Schedule schedule{.warmup_steps = 4};
  CHECK(schedule.factor(0) == 0.25);
  CHECK(schedule.factor(1) == 0.5);
  CHECK(schedule.factor(2) == 0.75);
  CHECK(schedule.factor(3) == 1);
  CHECK(schedule.factor(4) == 1);
}

TEST_CASE("Cosine goes from 1 to its final factor and stays there", "[schedule]") {
  const Schedule schedule{
      .kind = Schedule::Kind::cosine, .warmup_steps = 10, .total_steps = 70, .final_factor = 0.2};
  CHECK(schedule.factor(4) == 0.5);
  CHECK(schedule.factor(10) == 1);
  CHECK(close(schedule.factor(25),
              0.2 + 0.8 * (1 + std::numbers::sqrt2 / 2) / 2));  // a quarter: cos(45 degrees)
  CHECK(close(schedule.factor(30), 0.2 + 0.8 * 0.75));          // a third: cos(60 degrees)
  CHECK(close(schedule.factor(40), 0.6));                       // half way
  CHECK(schedule.factor(69) > 0.2);
  CHECK(schedule.factor(70) == 0.2);
  CHECK(schedule.factor(7000) == 0.2);
}

TEST_CASE("Step drops at every multiple after the warm-up, not below its final factor", "[schedule]") {
  const Schedule schedule{.kind = Schedule::Kind::step,
                          .warmup_steps = 2,
                          .step_every = 5,
                          .step_factor = 0.5,
                          .final_factor = 0.2};
  CHECK(schedule.factor(0) == 0.5);
  CHECK(schedule.factor(2) == 1);
  CHECK(schedule.factor(6) == 1);
  CHECK(schedule.factor(7) == 0.5);
  CHECK(schedule.factor(11) == 0.5);
  CHECK(schedule.factor(12) == 0.25);
  CHECK(schedule.factor(17) == 0.2);
  CHECK(schedule.factor(1700) == 0.2);
}

TEST_CASE("No schedule rises after its warm-up or leaves the interval from 0 to 1", "[schedule]") {
  for (const Schedule::Kind kind : {Schedule::Kind::constant, Schedule::Kind::cosine, Schedule::Kind::step}) {
    const Schedule schedule{.kind = kind, .warmup_steps = 7, .total_steps = 50, .step_every = 9};
    double before = 1;
    for (int step = 0; step < 80; ++step) {
      const double factor = schedule.factor(step);
      CHECK((factor >= 0 && factor <= 1));
      if (step < 7) continue;
      CHECK(factor <= before);
      before = factor;
    }
  }
}

TEST_CASE("A schedule that makes no sense is an error", "[schedule]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  using Kind = Schedule::Kind;
  CHECK_THROWS_AS(Schedule{}.factor(-1), ValueError);
  CHECK_THROWS_AS(Schedule{.warmup_steps = -1}.factor(0), ValueError);
  CHECK_THROWS_AS(Schedule{.final_factor = 1.5}.validate(), ValueError);
  CHECK_THROWS_AS(Schedule{.final_factor = nan}.validate(), ValueError);
  CHECK_THROWS_AS(Schedule{.kind = Kind::cosine}.validate(), ValueError);
  CHECK_THROWS_AS((Schedule{.kind = Kind::cosine, .warmup_steps = 5, .total_steps = 5}.validate()),
                  ValueError);
  CHECK_THROWS_AS(Schedule{.kind = Kind::step}.validate(), ValueError);
  CHECK_THROWS_AS((Schedule{.kind = Kind::step, .step_every = 1, .step_factor = 0}.validate()), ValueError);
  CHECK_THROWS_AS((Schedule{.kind = Kind::step, .step_every = 1, .step_factor = nan}.validate()), ValueError);
}

TEST_CASE("Schedules are known by name", "[schedule]") {
  using Kind = Schedule::Kind;
  CHECK(name_of(Kind::constant) == "constant");
  CHECK(name_of(Kind::cosine) == "cosine");
  CHECK(name_of(Kind::step) == "step");
  for (const Kind kind : {Kind::constant, Kind::cosine, Kind::step})
    CHECK(parse<Kind>(name_of(kind)) == kind);
  CHECK_THROWS_AS(parse<Kind>("linear"), ValueError);
}
