#include "report/html.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Colours are variables, so that dark mode and paper change them in one place. s0..s7 are SP sizes: dark enough for
 * white text, and told apart with the common kinds of colour blindness. c0..c6 are policies, cb the baseline. */
static const char *const style[] = {
    ":root{color-scheme:light dark;--page:#fcfcfb;--ink:#1c2126;--soft:#59626c;--faint:#d9dde1;--card:#f2f4f5;"
    "--idle:#e9ebee;--hatch:#a7afb8;--step:#9aa3ac;--end:#1c2126;--cb:#6b747d;--c0:#2a78c8;--c1:#c05a00;--c2:#0a7c66;"
    "--c3:#8e3a9e;--c4:#b3173f;--c5:#7c6a00;--c6:#1d2f7a}\n",
    "@media (prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e6e9ec;--soft:#a2abb4;--faint:#343b42;"
    "--card:#1d2226;--idle:#23282d;--hatch:#5b6570;--step:#5f6973;--end:#f2f4f5;--cb:#a2abb4;--c0:#6db3ff;--c1:#ff9d52;"
    "--c2:#4fd1b3;--c3:#d58be3;--c4:#ff7c95;--c5:#d9c64f;--c6:#9db2ff}}\n",
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,"
    "'Helvetica Neue',Arial,sans-serif;font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}\n"
    "main{max-width:1112px;margin:0 auto;padding:32px 20px 64px}\n"
    "h1{font-size:28px;line-height:1.2;margin:0 0 16px;overflow-wrap:anywhere}\n"
    "h2{font-size:20px;line-height:1.3;margin:48px 0 8px;padding-top:12px;border-top:1px solid var(--faint)}\n"
    "h3{font-size:17px;margin:32px 0 0}\n"
    "h3 small{font-weight:400;font-size:15px;color:var(--soft);margin-left:8px}\n"
    "p{margin:8px 0;max-width:46em}\n"
    ".lead{font-size:20px;line-height:1.4;margin:12px 0 20px}\n"
    ".soft,figcaption{color:var(--soft);font-size:14px}\n"
    ".facts{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:2px 20px;margin:0;padding:14px 18px;"
    "background:var(--card);border-radius:8px;font-size:14px}\n"
    ".facts dt,.words dt{color:var(--soft)}\n.facts dd{margin:0;overflow-wrap:anywhere}\n"
    ".words{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:4px 20px;margin:8px 0;font-size:15px}\n"
    ".words dd{margin:0;max-width:44em}\n",
    ".wide{overflow-x:auto}\n"
    "table{border-collapse:collapse;width:100%;font-size:15px}\n"
    "th,td{padding:6px 0 6px 20px;text-align:right;white-space:nowrap;vertical-align:top}\n"
    "th{font-weight:600;font-size:13px;color:var(--soft)}\n"
    "thead tr:last-child th{border-bottom:1px solid var(--soft);padding-top:0}\nthead th{padding-bottom:2px}\n"
    "thead .group{text-align:center;padding-bottom:0}\n"
    "tbody th{font-size:15px;color:var(--ink)}\ntbody td,tbody th{border-bottom:1px solid var(--faint)}\n"
    "th:first-child,td:first-child{text-align:left;padding-left:0}\n"
    "td small{display:block;font-size:12px;color:var(--soft)}\n"
    ".best td,.best th{font-weight:600}\n"
    ".bar{display:block;height:4px;margin-top:3px;margin-left:auto;background:currentColor;border-radius:2px}\n"
    "figure{margin:12px 0 20px}\nfigcaption{margin:0 0 4px;max-width:none}\n"
    ".pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,420px),1fr));gap:8px 28px}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:4px 20px;margin:8px 0;padding:0;list-style:none;font-size:14px}\n"
    ".legend li{display:flex;align-items:center;gap:7px}\n.legend svg{flex:none}\n",
    "svg{display:block;font:12px system-ui,-apple-system,'Segoe UI',Roboto,Arial,sans-serif}\n"
    ".chart{width:100%;height:auto}\n.broad{min-width:760px}\n.narrow{min-width:320px}\n"
    "svg text{fill:var(--soft)}\nsvg .strong{fill:var(--ink)}\n"
    "svg .m{text-anchor:middle}\nsvg .e{text-anchor:end}\n"
    ".grid{stroke:var(--faint);stroke-width:1}\n.axis{stroke:var(--soft);stroke-width:1}\n"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\n.raw{stroke-width:1;opacity:.3}\n"
    ".k0{stroke:var(--c0);color:var(--c0)}\n.k1{stroke:var(--c1);color:var(--c1)}\n"
    ".k2{stroke:var(--c2);color:var(--c2)}\n.k3{stroke:var(--c3);color:var(--c3)}\n"
    ".k4{stroke:var(--c4);color:var(--c4)}\n.k5{stroke:var(--c5);color:var(--c5)}\n"
    ".k6{stroke:var(--c6);color:var(--c6)}\n.kb{stroke:var(--cb);color:var(--cb)}\nsvg .kb{stroke-dasharray:5 4}\n"
    ".h0{fill:var(--c0)}\n.h1{fill:var(--c1)}\n"
    ".s0{fill:#2a78c8}\n.s1{fill:#b35900}\n.s2{fill:#0a5c55}\n.s3{fill:#8e3a9e}\n.s4{fill:#a3123f}\n.s5{fill:#5c4a00}\n"
    ".s6{fill:#1d2f7a}\n.s7{fill:#4d535c}\n"
    "svg .label{fill:#fff;font-size:11px;text-anchor:middle;pointer-events:none}\n"
    ".idle{fill:url(#idle)}\n.hatch{fill:var(--idle)}\n.hatchline{stroke:var(--hatch);stroke-width:1.2}\n"
    ".step{fill:var(--step)}\n.end{stroke:var(--end);stroke-width:2}\n",
    "@media (max-width:640px){main{padding:20px 14px 48px}h1{font-size:24px}.lead{font-size:18px}"
    ".facts,.words{grid-template-columns:minmax(0,1fr);gap:0}.facts dd,.words dd{margin-bottom:6px}}\n"
    "@media print{:root{color-scheme:light;--page:#fff;--ink:#000;--soft:#444;--faint:#ccc;--card:#f4f4f4;"
    "--idle:#f0f0f0;--hatch:#aaa;--step:#999;--end:#000;--cb:#666;--c0:#2a78c8;--c1:#c05a00;--c2:#0a7c66;--c3:#8e3a9e;"
    "--c4:#b3173f;--c5:#7c6a00;--c6:#1d2f7a}main{max-width:none;padding:0}body{font-size:12px;print-color-adjust:exact;"
    "-webkit-print-color-adjust:exact}figure,table,.facts{break-inside:avoid}h2,h3,.legend{break-after:avoid}"
    "h2{margin-top:28px}.lead{font-size:16px}.wide{overflow:visible}.broad,.narrow{min-width:0}"
    ".pair{grid-template-columns:1fr 1fr}table,tbody th{font-size:10px}thead th{font-size:9px}"
    "th,td{padding-left:8px}}\n",
};

/* The bytes of the UTF-8 character at `text` that XML allows, or 0. */
static int character_bytes(const unsigned char *text) {
    if (text[0] < 0x80) return text[0] >= 0x20 && text[0] != 0x7f ? 1 : text[0] == '\t' || text[0] == '\n';
    const int bytes = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    uint32_t code = text[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; ++i) {
        if ((text[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    return code >= least[bytes] && code <= 0x10ffff && !surrogate && (code & 0xfffe) != 0xfffe ? bytes : 0;
}

void dcpar_html_text(FILE *file, const char *text) {
    static const char special[] = "&<>\"'";
    static const char *const escaped[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    while (*text != '\0') {
        const int bytes = character_bytes((const unsigned char *)text);
        const char *found = strchr(special, *text);
        if (bytes == 0)
            fputs("\xef\xbf\xbd", file);
        else if (found != NULL)
            fputs(escaped[found - special], file);
        else
            fwrite(text, 1, (size_t)bytes, file);
        text += bytes > 0 ? bytes : 1;
    }
}

void dcpar_html_begin(FILE *file, const char *title) {
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n"
          "<meta charset=\"utf-8\" />\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n"
          "<title>",
          file);
    dcpar_html_text(file, title);
    fputs("</title>\n<style>\n", file);
    for (size_t i = 0; i < sizeof style / sizeof *style; ++i) fputs(style[i], file);
    fputs("</style>\n</head>\n<body>\n<main>\n", file);
}

void dcpar_html_end(FILE *file) { fputs("</main>\n</body>\n</html>\n", file); }
