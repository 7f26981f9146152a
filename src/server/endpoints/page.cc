// GET /: a page that shows models, queues, latency and memory, live; and GET /status, the numbers that it shows. No outside
// assets.
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "serve/outcome.h"
#include "server/context.h"

namespace tenon::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1"><title>Tenon</title>
<style>
:root{--bg:#f7f7f5;--fg:#1c1c1a;--dim:#6b6b66;--card:#fff;--line:#dcdcd6;--a:#a6541f;--b:#2f6f8f}
@media(prefers-color-scheme:dark){:root{--bg:#191917;--fg:#ececea;--dim:#9b9b95;--card:#232320;--line:#3a3a36;--a:#e09a63;--b:#7dbbd8}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif}
header,main{max-width:1100px;margin:auto;padding:16px}h1{font-size:20px;margin:0}h2{font-size:15px;margin:0 0 8px}
header{display:flex;gap:16px;align-items:baseline;flex-wrap:wrap}header span{color:var(--dim)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(320px,1fr));gap:12px;margin-bottom:12px}
.card{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}th,td{text-align:right;padding:4px 8px;border-bottom:1px solid var(--line)}
th{color:var(--dim);font-weight:500}th:first-child,td:first-child{text-align:left}.scroll{overflow-x:auto}
svg{width:100%;height:120px;display:block}.bar{height:8px;background:var(--line);border-radius:4px;overflow:hidden}.bar i{display:block;height:100%;background:var(--a)}
.bad{color:#c0392b}
</style></head><body>
<header><h1>Tenon</h1><span id="state">connecting</span><span id="machine"></span></header>
<main><div class="cards">
<section class="card"><h2>Requests a second <span id="rps"></span></h2><svg id="c_rps" viewBox="0 0 300 100" preserveAspectRatio="none"></svg></section>
<section class="card"><h2>Mean latency, ms <span id="lat"></span></h2><svg id="c_lat" viewBox="0 0 300 100" preserveAspectRatio="none"></svg></section>
<section class="card"><h2>Waiting and running <span id="que"></span></h2><svg id="c_que" viewBox="0 0 300 100" preserveAspectRatio="none"></svg></section>
<section class="card"><h2>Memory of models <span id="mem"></span></h2><svg id="c_mem" viewBox="0 0 300 100" preserveAspectRatio="none"></svg><div class="bar"><i id="membar" style="width:0"></i></div></section>
</div><section class="card scroll"><h2>Models</h2><table><thead><tr><th>model</th><th>version</th><th>state</th><th>answered</th><th>failed</th>
<th>waiting</th><th>p50 ms</th><th>p99 ms</th><th>rows a run</th><th>memory</th><th>instances</th><th>threads</th></tr></thead><tbody id="models"></tbody></table></section></main>
<script>
"use strict";
const $=id=>document.getElementById(id),lines={rps:[],lat:[],que:[],mem:[]};let last=null;
const bytes=n=>n>=1<<30?(n/(1<<30)).toFixed(2)+" GiB":n>=1<<20?(n/(1<<20)).toFixed(1)+" MiB":(n/1024).toFixed(0)+" KiB";
function draw(key,value,text){const h=lines[key];h.push(value);if(h.length>120)h.shift();const top=Math.max(...h,1e-9)*1.1;
const points=h.map((v,i)=>(300*i/119).toFixed(1)+","+(98-96*v/top).toFixed(1)).join(" ");
$("c_"+key).innerHTML='<polyline fill="none" stroke="var(--b)" stroke-width="2" vector-effect="non-scaling-stroke" points="'+points+'"/>';$(key).textContent=text;}
function quantile(m,edges,q){const total=m.latency_buckets.reduce((a,b)=>a+b,0);if(!total)return"";let sum=0;
for(let i=0;i<m.latency_buckets.length;i++){sum+=m.latency_buckets[i];if(sum>=q*total)return i<edges.length?"≤ "+edges[i]/1000:"> "+edges[edges.length-1]/1000;}return"";}
function cell(row,text,bad){const td=document.createElement("td");td.textContent=text;if(bad)td.className="bad";row.appendChild(td);}
function show(s){$("state").textContent=s.ready?"ready":"not ready";$("state").className=s.ready?"":"bad";
$("machine").textContent="version "+s.version+" · "+s.cores+" cores";
let ok=0,ns=0,waiting=0,flight=0;for(const m of s.models){ok+=m.ok;ns+=m.success_ns;waiting+=m.queued;flight+=m.in_flight;}
const now=performance.now()/1000;if(last){const dt=now-last.now,d=ok-last.ok;draw("rps",d/dt,(d/dt).toFixed(1));
const ms=d>0?(ns-last.ns)/d/1e6:0;draw("lat",ms,d>0?ms.toFixed(2):"");}last={now,ok,ns};
draw("que",flight,waiting+" waiting, "+(flight-waiting)+" running");draw("mem",s.memory_used,bytes(s.memory_used)+(s.memory_limit?" of "+bytes(s.memory_limit):""));
$("membar").style.width=s.memory_limit?Math.min(100,100*s.memory_used/s.memory_limit)+"%":"0";
const body=$("models");body.textContent="";for(const m of s.models){const row=document.createElement("tr");cell(row,m.name);cell(row,m.version);
cell(row,m.state+(m.reason?": "+m.reason:""),m.state!=="READY");cell(row,m.ok);cell(row,m.failed,m.failed>0);cell(row,m.queued);
cell(row,quantile(m,s.latency_edges_us,.5));cell(row,quantile(m,s.latency_edges_us,.99));cell(row,m.runs?(m.rows/m.runs).toFixed(1):"");
cell(row,bytes(m.memory));cell(row,m.instances);cell(row,m.threads);body.appendChild(row);}}
let key="";async function tick(){try{const r=await fetch("status",{cache:"no-store",headers:key?{Authorization:"Bearer "+key}:{}});
if(r.status===401){key=prompt("API key")||"";if(!key)throw 0;}else show(await r.json());}catch(e){$("state").textContent="no answer";$("state").className="bad";}
setTimeout(tick,1000);}tick();
</script></body></html>
)html";

Json ModelRow(const ModelState& state, const std::vector<ModelStatistics>& all) {
  Json row = {{"name", state.name}, {"version", state.version}, {"state", state.state}, {"reason", state.reason}};
  ModelStatistics s;
  s.latency_buckets.resize(std::size(kLatencyBucketsUs) + 1);
  for (const ModelStatistics& candidate : all) {
    if (candidate.name == state.name && candidate.version == state.version) s = candidate;
  }
  uint64_t failed = 0;
  Json outcomes = Json::object();
  for (int i = 0; i < kOutcomes; ++i) {
    outcomes[std::string(serve::OutcomeName(static_cast<Outcome>(i)))] = s.outcomes[i];
    if (i > 0) failed += s.outcomes[i];
  }
  row.update({{"accepted", s.accepted},
              {"ok", s.outcomes[0]},
              {"failed", failed},
              {"outcomes", outcomes},
              {"in_flight", s.in_flight},
              {"queued", s.queued},
              {"success_ns", s.success.ns},
              {"queue_ns", s.queue.ns},
              {"rows", s.rows},
              {"runs", s.runs},
              {"memory", s.memory_bytes},
              {"instances", s.instances},
              {"threads", s.threads},
              {"latency_buckets", s.latency_buckets}});
  return row;
}

}  // namespace

void Page(Call& call) {
  HttpResponse r;
  r.content_type = "text/html; charset=utf-8";
  r.headers.emplace_back("Content-Security-Policy",
                         "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'");
  r.body = kPage;
  call.Reply(std::move(r));
}

void ServerStatus(Call& call) {
  const InferenceServer& models = call.context.models;
  const auto all = models.Statistics();
  Json rows = Json::array();
  for (const ModelState& m : models.Index()) rows.push_back(ModelRow(m, all));
  const Json status = {{"version", kVersionString},
                       {"ready", models.Ready()},
                       {"cores", models.cores()},
                       {"memory_used", models.memory_used()},
                       {"memory_limit", models.memory_limit()},
                       {"latency_edges_us", kLatencyBucketsUs},
                       {"models", rows}};
  call.ReplyJson(status.dump(-1, ' ', false, Json::error_handler_t::replace));
}

}  // namespace tenon::server
