#pragma once

namespace orthornn {

enum class ReflectionOrder { first_to_last, last_to_first };

}  // namespace orthornn
