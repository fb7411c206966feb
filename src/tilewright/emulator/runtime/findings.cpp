#include "findings.hpp"

#include <algorithm>

namespace simt {
namespace {

std::string quoted(const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
    return result + '"';
}

std::string list(const std::vector<std::int64_t>& numbers) {
    std::string result = "[";
    for (const std::int64_t number : numbers) result += (result.size() > 1 ? "," : "") + std::to_string(number);
    return result + "]";
}

std::string list(const uint3& index) { return list(std::vector<std::int64_t>{index.x, index.y, index.z}); }

}  // namespace

std::uint32_t Findings::site_of(const Call& call) {
    const auto same = [&](const Call& other) {
        return other.line == call.line && other.file == call.file && other.operation == call.operation;
    };
    auto known = std::find_if(calls_.begin(), calls_.end(), same);
    if (known == calls_.end()) known = calls_.insert(known, call);
    return CALL | std::uint32_t(known - calls_.begin());
}

bool Findings::is_new(const char* kind, std::uint32_t site, std::uint32_t other_site) {
    const auto [known, is_new] = indices_.try_emplace({kind, site, other_site}, all_.size());
    if (!is_new) ++all_[known->second].count;
    return is_new;
}

void Findings::put(Finding finding) {
    finding.count = 1;
    all_.push_back(std::move(finding));
}

std::string Findings::json(const Finding::Party& party) const {
    std::string result = "{\"did\":" + quoted(party.did) + ",\"block\":" + list(party.block);
    result += ",\"thread\":" + (party.engine ? quoted(party.engine) : list(party.thread));
    if (party.site & CALL) {
        const Call& call = calls_[party.site & ~CALL];
        result += ",\"file\":" + quoted(call.file) + ",\"line\":" + std::to_string(call.line);
    } else {
        result += ",\"site\":" + std::to_string(party.site);
    }
    return result + "}";
}

std::string Findings::json() const {
    std::string result = "[";
    for (const Finding& finding : all_) {
        if (result.size() > 1) result += ",";
        result += "{\"kind\":" + quoted(finding.kind) + ",\"count\":" + std::to_string(finding.count) +
                  ",\"message\":" + quoted(finding.message) + ",\"party\":" + json(finding.party);
        if (finding.period != 0) result += ",\"period\":" + std::to_string(finding.period);
        if (finding.has_other) result += ",\"other\":" + json(finding.other);
        if (finding.has_place) {
            result += ",\"place\":{\"array\":" + quoted(finding.place.array) +
                      ",\"shared\":" + (finding.place.shared ? "true" : "false") +
                      ",\"index\":" + list(finding.place.index) + ",\"extents\":" + list(finding.place.extents) +
                      ",\"count\":" + std::to_string(finding.place.count) + "}";
        }
        result += "}";
    }
    return result + "]";
}

}  // namespace simt
