#pragma once

namespace orthornn::c_api {

/// Half of an operation that has a gradient.
enum class Pass { forward, backward };

}  // namespace orthornn::c_api
