// The frame that the report's script fills: every section stands here, hidden until there is something to show.
#pragma once

#include <string_view>

namespace headred::detail {

inline constexpr std::string_view page_body = R"html(
<main>
<noscript><p class="notes">The figures of this page are drawn by its own script, which needs JavaScript.</p></noscript>
<dl class="figures" id="figures"></dl>
<ul class="notes" id="notes" hidden></ul>
<div class="pair" id="top">
<section id="heatmap" hidden>
<h2>Redundancy of every pair of heads</h2>
<p class="caption" id="heatmap-caption"></p>
<div class="controls">
<label>distance <select id="distance"></select></label>
<fieldset id="order-choice"><legend>order</legend>
<input type="radio" name="order" id="by-cluster" value="cluster"><label for="by-cluster">cluster</label>
<input type="radio" name="order" id="by-layer" value="layer"><label for="by-layer">layer</label></fieldset>
<label><input type="checkbox" id="full-scale"> colours 0 to 1</label>
<span><button type="button" id="zoom-in" aria-label="zoom in">+</button>
<button type="button" id="zoom-out" aria-label="zoom out">&minus;</button>
<button type="button" id="zoom-reset">reset</button></span>
</div>
<div class="plot" id="plot"><canvas id="map" tabindex="0" role="img" aria-describedby="readout"></canvas>
<div class="tip" id="map-tip" hidden></div></div>
<div class="scale hold" id="scale"></div>
<output class="readout" id="readout" aria-live="polite"></output>
</section>
<div id="side">
<section id="curve-section" hidden>
<h2>Silhouette by number of clusters</h2>
<p class="caption user" id="curve-caption"></p>
<div class="curve hold" id="curve"></div>
</section>
<section id="kept-section" hidden>
<h2 id="kept-title"></h2>
<p class="caption" id="kept-caption"></p>
<div class="scroll free"><div class="hold" id="kept"></div></div>
</section>
</div>
</div>
<section id="clusters-section" class="long" hidden>
<h2>Clusters</h2>
<p class="caption" id="clusters-caption"></p>
<div class="scroll"><table><thead><tr id="clusters-head"></tr></thead><tbody id="clusters"></tbody></table></div>
</section>
<section id="compare-section" hidden>
<h2>Do the distances agree?</h2>
<p class="caption" id="compare-caption"></p>
<div class="scroll free"><table class="compare" id="compare"></table></div>
</section>
<section id="gaps-section" hidden>
<h2>Mean distance by layer gap</h2>
<p class="caption" id="gaps-caption"></p>
<div class="panels" id="gaps"></div>
</section>
<section id="settings-section" class="long" hidden>
<h2>Settings and figures</h2>
<table class="settings"><tbody id="settings"></tbody></table>
</section>
</main>
)html";

}  // namespace headred::detail
