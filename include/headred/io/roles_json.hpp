// The JSON form of roles: for other programs and for reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <headred/importance/roles/head_roles.hpp>

namespace headred {

/// The roles as JSON, keys in a fixed order, one line an entry, ending in a line end:
///
///     {
///       "format": "headred.head_roles",
///       "schema": 1,
///       "kind": "encoder_self",
///       "heads_per_layer": [12, 12],
///       "roles": [
///         {"role": "positional", "detail": "offset -1", "layer": 0, "head": 3, "count": 270, "tokens": 300,
///          "share": 0.9, "low": 0.86, "high": 0.93, "threshold": 0.9, "verdict": "yes", "settled": false,
///          "mass": null, "chance": null}
///       ]
///     }
///
/// (an entry stands on one line). `mass` and `chance` are null where they were not measured. Numbers read back to the same
/// bits; bytes of names that are not UTF-8 become U+FFFD.
inline std::string to_json_text(const head_roles& roles) {
  using json = nlohmann::ordered_json;
  const auto measured = [](double x) { return x < 0 ? json() : json(x); };
  const auto dump = [](const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); };
  std::string text = "{\n  \"format\": \"headred.head_roles\",\n  \"schema\": 1,\n  \"kind\": \"" +
                     std::string(to_string(roles.kind)) +
                     "\",\n  \"heads_per_layer\": " + dump(json(roles.layout.heads_per_layer())) + ",\n  \"roles\": [";
  const char* before = "\n    ";
  for (const head_role& r : roles.roles) {
    const role_evidence& e = r.evidence;
    json entry;
    entry["role"] = r.role;
    entry["detail"] = r.detail;
    entry["layer"] = r.head.layer;
    entry["head"] = r.head.head;
    entry["count"] = e.count;
    entry["tokens"] = e.tokens;
    entry["share"] = e.share;
    entry["low"] = e.interval.low;
    entry["high"] = e.interval.high;
    entry["threshold"] = e.threshold;
    entry["verdict"] = to_string(e.says);
    entry["settled"] = e.settled;
    entry["mass"] = measured(r.mass);
    entry["chance"] = measured(r.chance);
    text += before + dump(entry);
    before = ",\n    ";
  }
  return text + (roles.roles.empty() ? "]\n}\n" : "\n  ]\n}\n");
}

}  // namespace headred
