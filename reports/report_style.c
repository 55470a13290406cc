/* report_style.c - the style of the report: light, dark and printed, on a telephone and on a desk.
 *
 * Colours are variables, so that dark and printed pages change them in one place.  The contrast of text is always at
 * least 4.5 to 1.  Colour-blind readers can tell the lines of a plot apart. */
#include "reports/report.h"

#define LIGHT \
    "--paper:#f7f7f5;--card:#fff;--ink:#1d2430;--soft:#5b6475;--rule:#e3e5ea;--predicted:#2b62c9;--measured:#c8641a;" \
    "--bound:#8d95a5;--busy:#2f8f6b;--bad:#b3261e;--link:#1f56b8;--c0:#0072b2;--c1:#d55e00;--c2:#00805c;--c3:#b0528c;" \
    "--c4:#7a5c00;--c5:#3a8fc4;--c6:#b3261e;--c7:#6b5bd0;"
#define DARK \
    "--paper:#13161b;--card:#1b1f26;--ink:#e6e9ef;--soft:#a3acbd;--rule:#333a46;--predicted:#7fa8f8;" \
    "--measured:#f0a04b;--bound:#7d8698;--busy:#4fb78d;--bad:#ff8a80;--link:#8ab4ff;--c0:#56b4e9;--c1:#f08a4b;" \
    "--c2:#3ecf9b;--c3:#e39ac4;--c4:#d9b84a;--c5:#9fd3f5;--c6:#ff8a80;--c7:#a99cf5;"
#define LINE(n) \
    "circle.c" n ",rect.c" n "{fill:var(--c" n ")}polyline.c" n "{stroke:var(--c" n ")}.key.c" n \
    "{background:var(--c" n ")}\n"

const char report_style[] =
    ":root{color-scheme:light dark;" LIGHT "}\n"
    "@media(prefers-color-scheme:dark){:root{" DARK "}}\n"
    "@media print{:root{color-scheme:light;" LIGHT
    "--paper:#fff}body{font-size:11px}main{max-width:none;padding:0}section{border:0;padding:0}figure,tr,h2,h3{break-"
    "inside:avoid}h2,h3{break-after:avoid}}\n"
    "*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 "
    "system-ui,-apple-system,\"Segoe UI\",\"DejaVu Sans\",sans-serif}\n"
    "main{max-width:1080px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1{font-size:26px;line-height:1.25;margin:0 0 2px}h2{font-size:19px;line-height:1.3;margin:0 0 "
    "4px}h3{font-size:15px;margin:26px 0 2px}h1,h2,h3{overflow-wrap:anywhere}\n"
    "a{color:var(--link)}section{background:var(--card);border:1px solid var(--rule);border-radius:10px;padding:20px "
    "24px;margin:22px 0}\n"
    ".note,.legend,.path{color:var(--soft);font-size:13px;margin:0 0 "
    "8px}.note{max-width:70ch}.path{overflow-wrap:anywhere}.verdict{font-size:17px;font-weight:600;margin:8px "
    "0;max-width:72ch}.words p{margin:6px 0;max-width:80ch}\n"
    ".legend "
    "span{display:inline-block;margin-right:14px}.key{display:inline-block;width:11px;height:11px;border-radius:2px;"
    "margin-right:6px}.key.predicted{background:var(--predicted)}.key.measured{background:var(--measured)}\n"
    ".scroll{overflow-x:auto}.machine-box "
    "svg{min-width:960px;max-width:none}table{border-collapse:collapse;font-size:13px}\n"
    "th,td{padding:5px 18px 5px 0;border-bottom:1px solid "
    "var(--rule);text-align:left;vertical-align:top}th:last-child,td:last-child{padding-right:0}th{color:var(--soft);"
    "font-weight:600}.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td.differs{color:var(--bad)}td.wide{overflow-wrap:anywhere;min-width:140px}details{margin-top:18px}summary{cursor:"
    "pointer;color:var(--soft)}\n"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,390px),1fr));gap:14px "
    "40px;margin:8px 0}.many{grid-template-columns:repeat(auto-fill,minmax(min(100%,306px),1fr));gap:14px 28px}.many "
    "text.small{font-size:13px}figure{margin:0;min-width:0}figcaption{font-weight:600;font-size:13px;overflow-wrap:"
    "anywhere;margin-bottom:4px}\n"
    "svg{width:100%;height:auto;display:block;max-width:480px}text{fill:var(--ink);font:13px system-ui,\"DejaVu "
    "Sans\",sans-serif}text.small{fill:var(--soft);font-size:12px}text.value{fill:var(--ink)}\n"
    "line{stroke:var(--rule)}line.axis{stroke:var(--soft)}line.whisker{stroke:var(--ink);stroke-width:1.5}line.band{"
    "stroke:var(--soft);stroke-dasharray:4 "
    "4}line.at{stroke-width:2.5}line.mid{stroke-width:1.5}line.predicted,polyline.predicted{stroke:var(--predicted)}"
    "line.measured,polyline.measured{stroke:var(--measured)}polyline{fill:none;stroke-width:2;stroke-linejoin:round}"
    "polyline.thin{stroke-width:1;stroke-opacity:.8}\n"
    "rect.predicted,circle.predicted{fill:var(--predicted)}rect.measured,circle.measured{fill:var(--measured)}circle{"
    "fill-opacity:.8}circle.bound{fill:var(--bound);fill-opacity:.6}rect.bound{fill:var(--bound)}rect.busy{fill:var(--"
    "busy)}\n"
    "@media(max-width:600px){main{padding:16px 8px 40px}section{padding:14px 12px;margin:14px "
    "0}h1{font-size:22px}table{font-size:12px}th,td{padding:4px 7px 4px "
    "0}td.wide{min-width:64px}th.n{white-space:normal}}\n"
    /* h0 to h7: waits, from light green to dark red; r0 to r8: ratios, blue below 1, red above 1, light green near 1 */
    ".heat{shape-rendering:crispEdges}.heat "
    "rect{width:1px;height:1px}rect.h0{fill:#e3f4d9}rect.h1{fill:#c4e3a6}rect.h2{fill:#f3e08a}rect.h3{fill:#fbc15e}"
    "rect.h4{fill:#f4924a}rect.h5{fill:#dc5a3a}rect.h6{fill:#a92b2f}rect.h7{fill:#5f0f20}rect.r0{fill:#1c3f7a}rect.r1{"
    "fill:#3a6bb0}rect.r2{fill:#7fa9d6}rect.r3{fill:#bcd9e2}rect.r4{fill:#e3f4d9}rect.r5{fill:#f6dca0}rect.r6{fill:#"
    "f0a060}rect.r7{fill:#cf4a3a}rect.r8{fill:#7d1226}\n" LINE("0") LINE("1") LINE("2") LINE("3") LINE("4") LINE("5")
        LINE("6") LINE("7") "rect.again,.key.again{opacity:.4}\n"
                            /* dashes show the lower one of two lines that coincide */
                            "polyline.c1,polyline.c3,polyline.c5,polyline.c7{stroke-dasharray:7 4}\n";
