#include "handlers/listing_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iterator>

#include "corehttpd/base/clock.h"
#include "corehttpd/base/json.h"
#include "corehttpd/base/text.h"

namespace corehttpd::handlers {
namespace {

using assets::DirectoryEntry;

// Columns of a name; longer ones are cut and end in "..>".
constexpr std::size_t kNameColumns = 50;

bool is_unreserved(char c) {
  return text::is_digit(c) || (text::lower(c) >= 'a' && text::lower(c) <= 'z') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

// One path segment of a link (RFC 3986 §2.3): whatever is not unreserved is escaped, so that
// neither "a:b" becomes a scheme nor a quote ends the attribute.
void append_segment(std::string& out, std::string_view name) {
  for (const char c : name) {
    if (is_unreserved(c)) {
      out.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

void append_escaped(std::string& out, char c) {
  switch (c) {
    case '<':
      out.append("&lt;");
      break;
    case '>':
      out.append("&gt;");
      break;
    case '&':
      out.append("&amp;");
      break;
    case '"':
      out.append("&quot;");
      break;
    default:
      out.push_back(c);
  }
}

void append_html(std::string& out, std::string_view text) {
  for (const char c : text) append_escaped(out, c);
}

// Characters of a name; of one that is not UTF-8 its bytes, as nginx counts.
std::size_t count_characters(std::string_view name) {
  std::size_t count = 0;
  for (std::string_view rest = name; !rest.empty(); ++count) {
    const std::size_t bytes = text::utf8_length(rest);
    if (bytes == 0) return name.size();
    rest.remove_prefix(bytes);
  }
  return count;
}

// The first count characters of a name (of one that is not UTF-8: bytes).
std::string_view first_characters(std::string_view name, std::size_t count) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = text::utf8_length(name.substr(end));
    if (bytes == 0) return name.substr(0, count);
    end += bytes;
  }
  return name.substr(0, end);
}

std::tm calendar(std::int64_t seconds, bool local) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  const bool known = (local ? ::localtime_r(&time, &parts) : ::gmtime_r(&time, &parts)) != nullptr;
  if (!known) parts = std::tm{};
  return parts;
}

void append_html_date(std::string& out, std::int64_t seconds, bool local) {
  static constexpr std::string_view kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                 "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::tm at = calendar(seconds, local);
  const auto month = static_cast<std::size_t>(std::clamp(at.tm_mon, 0, 11));
  fmt::format_to(std::back_inserter(out), "{:02}-{}-{} {:02}:{:02}", at.tm_mday, kMonths[month],
                 at.tm_year + 1900, at.tm_hour, at.tm_min);
}

// Rounded to the nearest of the largest unit that leaves a digit before the point.
void append_rounded_size(std::string& out, std::uint64_t size) {
  struct Unit {
    std::uint64_t bytes, above;
    char letter;
  };
  static constexpr Unit kUnits[] = {
      {1u << 30, (1u << 30) - 1, 'G'}, {1u << 20, (1u << 20) - 1, 'M'}, {1u << 10, 9999, 'K'}};
  for (const Unit& unit : kUnits) {
    if (size <= unit.above) continue;
    const std::uint64_t rounded =
        size / unit.bytes + (size % unit.bytes > unit.bytes / 2 - 1 ? 1 : 0);
    fmt::format_to(std::back_inserter(out), "{:6}{}", rounded, unit.letter);
    return;
  }
  fmt::format_to(std::back_inserter(out), " {:6}", size);
}

void append_html_entry(std::string& out, const ListingOptions& options,
                       const DirectoryEntry& entry) {
  const bool directory = entry.kind == DirectoryEntry::Kind::kDirectory;
  out.append("<a href=\"");
  append_segment(out, entry.name);
  out.append(directory ? "/\">" : "\">");
  std::size_t columns = count_characters(entry.name);
  if (columns > kNameColumns) {
    append_html(out, first_characters(entry.name, kNameColumns - 3));
    out.append("..&gt;</a>");
  } else {
    append_html(out, entry.name);
    if (directory && columns < kNameColumns) {
      out.push_back('/');
      ++columns;
    }
    out.append("</a>");
    out.append(kNameColumns - columns, ' ');
  }
  out.push_back(' ');
  append_html_date(out, entry.modified_s, options.local_time);
  out.push_back(' ');
  if (directory) {
    out.append(options.exact_size ? 18 : 6, ' ').push_back('-');
  } else if (options.exact_size) {
    fmt::format_to(std::back_inserter(out), "{:19}", entry.size);
  } else {
    append_rounded_size(out, entry.size);
  }
  out.append("\r\n");
}

std::string_view type_of(const DirectoryEntry& entry) {
  switch (entry.kind) {
    case DirectoryEntry::Kind::kDirectory:
      return "directory";
    case DirectoryEntry::Kind::kFile:
      return "file";
    case DirectoryEntry::Kind::kOther:
      break;
  }
  return "other";
}

void append_json_entry(std::string& out, const DirectoryEntry& entry, bool first) {
  char date[29];
  format_http_date(entry.modified_s, date);
  out.append(first ? "\r\n{ \"name\":" : ",\r\n{ \"name\":");
  append_json_string(out, entry.name);
  fmt::format_to(std::back_inserter(out), ", \"type\":\"{}\", \"mtime\":\"{}\"", type_of(entry),
                 std::string_view(date, sizeof date));
  if (entry.kind == DirectoryEntry::Kind::kFile) {
    fmt::format_to(std::back_inserter(out), ", \"size\":{}", entry.size);
  }
  out.append(" }");
}

// Characters that XML 1.0 has no way to write (§2.2), and bytes that are no character, become
// U+FFFD: one odd name must not make the whole document unreadable.
void append_xml(std::string& out, std::string_view name) {
  while (!name.empty()) {
    const std::size_t bytes = text::utf8_length(name);
    const bool control = bytes == 1 && static_cast<unsigned char>(name[0]) < 0x20 &&
                         name[0] != '\t' && name[0] != '\n' && name[0] != '\r';
    const bool noncharacter = name.starts_with("\xef\xbf\xbe") || name.starts_with("\xef\xbf\xbf");
    if (bytes == 0 || control || noncharacter) {
      out.append("\xef\xbf\xbd");
    } else if (bytes == 1) {
      append_escaped(out, name[0]);
    } else {
      out.append(name.substr(0, bytes));
    }
    name.remove_prefix(std::max<std::size_t>(bytes, 1));
  }
}

void append_xml_entry(std::string& out, const DirectoryEntry& entry) {
  const std::tm at = calendar(entry.modified_s, false);
  const std::string_view type = type_of(entry);
  fmt::format_to(std::back_inserter(out), "<{} mtime=\"{:4}-{:02}-{:02}T{:02}:{:02}:{:02}Z\"", type,
                 at.tm_year + 1900, at.tm_mon + 1, at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec);
  if (entry.kind == DirectoryEntry::Kind::kFile) {
    fmt::format_to(std::back_inserter(out), " size=\"{}\"", entry.size);
  }
  out.push_back('>');
  append_xml(out, entry.name);
  fmt::format_to(std::back_inserter(out), "</{}>\r\n", type);
}

}  // namespace

void append_listing_head(std::string& out, const ListingOptions& options, std::string_view uri,
                         std::string_view callback) {
  switch (options.format) {
    case ListingFormat::kHtml:
      out.append("<html>\r\n<head><title>Index of ");
      append_html(out, uri);
      out.append("</title></head>\r\n<body>\r\n<h1>Index of ");
      append_html(out, uri);
      out.append("</h1><hr><pre><a href=\"../\">../</a>\r\n");
      break;
    case ListingFormat::kJsonp:
      // The comment keeps a chosen name from being the first bytes of the response, where it could
      // be taken for the head of another format.
      out.append("/* callback */\r\n").append(callback).append("([");
      break;
    case ListingFormat::kJson:
      out.push_back('[');
      break;
    case ListingFormat::kXml:
      out.append("<?xml version=\"1.0\"?>\r\n<list>\r\n");
      break;
  }
}

void append_listing_entry(std::string& out, const ListingOptions& options,
                          const DirectoryEntry& entry, bool first) {
  switch (options.format) {
    case ListingFormat::kHtml:
      append_html_entry(out, options, entry);
      break;
    case ListingFormat::kJson:
    case ListingFormat::kJsonp:
      append_json_entry(out, entry, first);
      break;
    case ListingFormat::kXml:
      append_xml_entry(out, entry);
      break;
  }
}

void append_listing_tail(std::string& out, const ListingOptions& options) {
  switch (options.format) {
    case ListingFormat::kHtml:
      out.append("</pre><hr></body>\r\n</html>\r\n");
      break;
    case ListingFormat::kJson:
      out.append("\r\n]");
      break;
    case ListingFormat::kJsonp:
      out.append("\r\n]);");
      break;
    case ListingFormat::kXml:
      out.append("</list>\r\n");
      break;
  }
}

bool is_callback(std::string_view name) {
  return name.size() <= kCallbackBytesMax && std::all_of(name.begin(), name.end(), [](char c) {
           return text::is_digit(c) || (text::lower(c) >= 'a' && text::lower(c) <= 'z') ||
                  c == '_' || c == '.';
         });
}

}  // namespace corehttpd::handlers
