"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const at = (place) => place.split("/").reduce((value, name) => value[name], report);
  const numbers = (place) => at(place).map(Number);
  const shown = (x) => {
    if (x === 0 || (Math.abs(x) < 1e5 && Math.abs(x) >= 1e-4)) return String(+x.toPrecision(4)).replace("-", "−");
    const [digits, power] = x.toExponential(3).split("e");
    const raised = [...String(+power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[+c])).join("");
    return `${String(+digits).replace("-", "−")} × 10${raised}`;
  };
  const space = document.querySelector(".canvas svg").namespaceURI;
  const make = (name, attributes = {}, parent = null, text = null) => {
    const node = document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== null) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };
  const button = (parent, label, name = null) => {
    const node = document.createElement("button");
    node.type = "button";
    node.append(label);
    if (name) node.setAttribute("aria-label", name);
    parent.append(node);
    return node;
  };

  // --- colours, and the data as a file

  const theme = document.querySelector(".theme");
  const themes = [["", "as the system"], ["light", "light"], ["dark", "dark"]];
  let now = 0;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    now = (now + 1) % themes.length;
    document.documentElement.dataset.theme = themes[now][0];
    theme.querySelector("span").textContent = themes[now][1];
  });
  const save = document.querySelector(".save");
  save.hidden = false;
  save.addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([JSON.stringify(report, null, 1)], { type: "application/json" }));
    link.download = "report.json";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  // --- tensors

  for (const figure of document.querySelectorAll("figure.tensors")) {
    const svg = figure.querySelector("svg");
    const readout = figure.querySelector(".readout");
    const buttons = [...figure.querySelectorAll("[data-family]")].filter((node) => node.tagName === "BUTTON");
    const families = report.models[+figure.id.slice(1, -6)].families;
    const first = readout.textContent;
    let chosen = null;
    const show = (n) => {
      svg.classList.toggle("chosen", n !== null);
      for (const box of svg.querySelectorAll(".box")) {
        const moved = n !== null && box.dataset.families.split(" ").includes(String(n));
        box.classList.toggle("moved", moved);
        for (let k = 0; k < 10; k++) box.classList.toggle("c" + k, moved && n % 10 === k);
      }
      for (const mark of svg.querySelectorAll(".mark")) mark.classList.toggle("moved", n === +mark.dataset.family);
      if (n === null) readout.textContent = first;
      else {
        const { name, group, action } = families[n];
        const said = Object.entries(action).map(([left, right]) => `${left} ↦ ${right}`).join(",  ");
        readout.textContent = `${n + 1}  ${name}, ${group}:  ${said}`;
      }
    };
    const settle = () => {
      for (const node of buttons) node.setAttribute("aria-pressed", String(+node.dataset.family === chosen));
      show(chosen);
    };
    for (const node of buttons) {
      const n = +node.dataset.family;
      node.addEventListener("click", () => { chosen = chosen === n ? null : n; settle(); });
      node.addEventListener("pointerenter", (event) => { if (event.pointerType === "mouse") show(n); });
      node.addEventListener("pointerleave", () => show(chosen));
    }
    for (const mark of svg.querySelectorAll(".mark")) {
      mark.addEventListener("click", () => { const n = +mark.dataset.family; chosen = chosen === n ? null : n; settle(); });
    }
    for (const box of svg.querySelectorAll(".box")) {
      box.addEventListener("pointerenter", () => {
        if (chosen !== null) return;
        const acting = box.dataset.families.split(" ").filter(Boolean).map((n) => families[n].name);
        readout.textContent = `${box.dataset.name} is moved by ${acting.join(", ") || "nothing"}`;
      });
      box.addEventListener("pointerleave", () => show(chosen));
    }
    const tools = figure.querySelector(".tools");
    const natural = svg.viewBox.baseVal.width;
    tools.hidden = false;
    tools.addEventListener("click", (event) => {
      const way = event.target.dataset.zoom;
      if (!way) return;
      const wide = svg.getBoundingClientRect().width;
      svg.classList.toggle("zoomed", way !== "fit");
      svg.style.width = way === "fit" ? "" : `${Math.min(Math.max(wide * (way === "in" ? 1.3 : 1 / 1.3), 80), 6 * natural)}px`;
    });
  }

  // --- proofs

  for (const figure of document.querySelectorAll("figure.proof")) {
    const svg = figure.querySelector("svg"), readout = figure.querySelector(".readout");
    const boxes = [...svg.querySelectorAll("[data-said]")];
    let here = -1;
    const show = (n) => {
      here = n;
      boxes.forEach((box, k) => box.classList.toggle("here", k === n));
      readout.textContent = n < 0 ? "" : boxes[n].dataset.said;
    };
    boxes.forEach((box, n) => box.addEventListener("pointerenter", () => show(n)));
    svg.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      show(Math.min(Math.max(here + by, 0), boxes.length - 1));
      boxes[here].scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }

  // --- charts

  const steps = (low, high, count) => {
    const raw = (high - low) / Math.max(count, 1);
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((s) => s >= raw) || raw;
    const out = [];
    for (let k = Math.ceil(low / step); k * step <= high + 1e-9 * step; k++) out.push(k * step);
    return out;
  };
  const decades = (low, high, count) => {
    const whole = Math.floor(Math.log10(high) + 1e-9) - Math.ceil(Math.log10(low) - 1e-9) + 1;
    if (whole < 2) {
      const fine = [];
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
        for (const m of [1, 2, 3, 5, 7]) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) fine.push(m * 10 ** e);
      return fine.length > 1 ? fine : steps(low, high, count).filter((x) => x > 0);
    }
    const every = Math.max(1, Math.ceil(whole / count));
    const out = [];
    if (2 * whole <= count + 1) {
      for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e++)
        for (const m of [1, 3]) if (m * 10 ** e >= low * 0.999 && m * 10 ** e <= high * 1.001) out.push(+(m * 10 ** e).toPrecision(1));
      return out;
    }
    for (let e = Math.ceil(Math.log10(low) - 1e-9); e <= Math.log10(high) + 1e-9; e += every) out.push(10 ** e);
    return out;
  };
  const power = (x) => {
    const e = Math.log10(x);
    if (Math.abs(e - Math.round(e)) > 1e-9 || Math.abs(e) < 4) return [shown(x), ""];
    return ["10", String(Math.round(e)).replace("-", "−")];
  };

  // the line of one level through a grid: where it crosses the sides of each cell (marching squares)
  const level = (xs, ys, values, at) => {
    let d = "";
    for (let i = 0; i + 1 < xs.length; i++) for (let j = 0; j + 1 < ys.length; j++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const cuts = [];
      corners.forEach(([a, b], n) => {
        const [c, e] = corners[(n + 1) % 4], low = values[a][b], high = values[c][e];
        if (low < at === high < at) return;
        const f = (at - low) / (high - low);
        cuts.push([xs[a] + f * (xs[c] - xs[a]), ys[b] + f * (ys[e] - ys[b])]);
      });
      for (let n = 0; n + 1 < cuts.length; n += 2) d += `M${cuts[n].map((v) => v.toFixed(1))}L${cuts[n + 1].map((v) => v.toFixed(1))}`;
    }
    return d;
  };
  const plane = (plot, spec, caption) => {
    const at_ = numbers(spec.grid.steps), values = at(spec.grid.losses).map((row) => row.map(Number));
    const known = values.flat().filter(Number.isFinite);
    const low = Math.min(...known), high = Math.max(...known), last = at_.length - 1, half = (at_[1] - at_[0]) / 2;
    const svg = make("svg", { role: "img", tabindex: "0", "aria-label": `${caption} Arrow keys move over the plane.` }, plot);
    const readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    plot.append(readout);
    let here = [last / 2, last / 2], tell = () => {}, pick = () => {};
    const draw = () => {
      const width = Math.max(plot.clientWidth, 240), side = Math.min(width - 80, 380), left = Math.round((width - side + 50) / 2), top = 8;
      const X = (v) => left + (side * (v - at_[0] + half)) / (at_[last] - at_[0] + 2 * half), Y = (v) => top + side - (X(v) - left);
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${side + 54}`);
      const cell = side / at_.length;
      values.forEach((row, i) => row.forEach((value, j) => {
        const share = high > low ? (value - low) / (high - low) : 0;
        const [x, y] = [Math.round(left + i * cell), Math.round(top + side - (j + 1) * cell)];
        const [wide, high_] = [Math.round(left + (i + 1) * cell) - x, Math.round(top + side - j * cell) - y];
        if (Number.isFinite(value)) make("rect", { class: "cell", x, y, width: wide, height: high_, opacity: (0.04 + 0.66 * share).toFixed(3) }, svg);
      }));
      const xs = at_.map(X), ys = at_.map(Y);
      for (let n = 1; n < 10; n++) make("path", { class: "level", d: level(xs, ys, values, low + (n / 10) * (high - low)) }, svg);
      for (const v of steps(at_[0], at_[last], 4)) {
        make("text", { x: X(v), y: top + side + 17, "text-anchor": "middle" }, svg, shown(+v.toPrecision(6)));
        make("text", { x: left - 7, y: Y(v) + 4, "text-anchor": "end" }, svg, shown(+v.toPrecision(6)));
      }
      make("path", { class: "frame", d: `M${left},${top}V${top + side}H${left + side}` }, svg);
      const short = (label) => (width < 480 ? label.split(" (")[0] : label);
      make("text", { x: left + side / 2, y: top + side + 38, "text-anchor": "middle" }, svg, short(spec.x.label));
      make("text", { transform: `translate(${left - 44},${top + side / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, short(spec.y.label));
      make("circle", { class: "near c1", cx: X(0), cy: Y(0), r: 4 }, svg);
      const spot = make("circle", { class: "spot", r: 6 }, svg);
      spot.style.display = "none";
      tell = () => {
        const [i, j] = here;
        spot.style.display = "";
        spot.setAttribute("cx", X(at_[i]));
        spot.setAttribute("cy", Y(at_[j]));
        readout.textContent = `loss ${shown(values[i][j])} at ${shown(+at_[i].toPrecision(6))} along and ${shown(+at_[j].toPrecision(6))} across the orbit`;
      };
      pick = (x, y) => {
        const near = (v) => Math.min(Math.max(Math.round(v), 0), last);
        here = [near((x - left) / cell - 0.5), near((top + side - y) / cell - 0.5)];
        tell();
      };
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = svg.viewBox.baseVal.width / box.width;
      pick((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!step) return;
      event.preventDefault();
      here = here.map((v, n) => Math.min(Math.max(v + step[n], 0), last));
      tell();
    });
    redrawn(plot, draw);
  };
  const redrawn = (plot, draw) => {
    draw();
    let wide = plot.clientWidth;
    new ResizeObserver(() => { if (plot.clientWidth !== wide) { wide = plot.clientWidth; draw(); } }).observe(plot);
  };

  document.querySelectorAll(".plot").forEach((plot, serial) => {
    const spec = JSON.parse(plot.dataset.chart);
    const caption = plot.parentElement.querySelector("figcaption").textContent;
    if (spec.grid) return plane(plot, spec, caption);
    const scales = { x: spec.x.scale, y: spec.y.scale };
    let zoom = null;
    let place = null;
    const series = spec.series.map((given) => {
      const one = { ...given, on: !given.hidden };
      if (given.ticks) one.points = numbers(given.ticks).map((x) => [x, null]);
      else {
        const y = numbers(given.y);
        one.points = numbers(given.x).slice(0, y.length).map((x, k) => [x, given.relative ? y[k] / y[0] : y[k]]);
      }
      one.points = one.points.filter(([x, y]) => Number.isFinite(x) && (y === null || Number.isFinite(y)));
      return one;
    });
    const group = (name) => {
      const node = document.createElement("div");
      node.className = name;
      node.setAttribute("role", "group");
      plot.append(node);
      return node;
    };
    const legend = group("legend");
    legend.setAttribute("aria-label", "Series");
    const tools = group("tools");
    tools.setAttribute("aria-label", "Axes");
    const svg = make("svg", { role: "img", tabindex: "0", "aria-label": `${caption} Arrow keys move from point to point.` }, plot);
    const readout = document.createElement("p");
    readout.className = "readout";
    readout.setAttribute("aria-live", "polite");
    plot.append(readout);
    for (const one of series) {
      const node = button(legend, "");
      node.dataset.series = one.name;
      const key = make("svg", { width: 22, height: 12, "aria-hidden": "true", class: "c" + one.colour }, node);
      if (one.ticks) make("path", { class: "tick", d: "M6,1V11M11,1V11M16,1V11" }, key);
      else make("path", { class: "line" + (one.dash ? " dash" : ""), d: "M1,6H21" }, key);
      if (one.marks) make("circle", { class: "mark", cx: 11, cy: 6, r: 3 }, key);
      node.append(one.name);
      node.setAttribute("aria-pressed", String(one.on));
      node.addEventListener("click", () => { one.on = !one.on; node.setAttribute("aria-pressed", String(one.on)); draw(); });
    }
    for (const axis of ["x", "y"]) {
      if (spec[axis].scale !== "log") continue;
      const node = button(tools, `logarithmic ${axis === "x" ? "across" : "up"}`);
      node.setAttribute("aria-pressed", "true");
      node.addEventListener("click", () => {
        scales[axis] = scales[axis] === "log" ? "linear" : "log";
        zoom = null;
        node.setAttribute("aria-pressed", String(scales[axis] === "log"));
        draw();
      });
    }
    const into = (share) => {
      const map = frame();
      const ends = (axis) => [0.5 - share / 2, 0.5 + share / 2].map((f) => map.back[axis](f));
      zoom = { x: ends("x"), y: ends("y") };
      draw();
    };
    button(tools, "+", "zoom in").addEventListener("click", () => into(0.7));
    button(tools, "−", "zoom out").addEventListener("click", () => into(1 / 0.7));
    button(tools, "all", "show everything").addEventListener("click", () => { zoom = null; draw(); });

    const can = (axis, value) => value !== null && (scales[axis] !== "log" || value > 0);
    const limits = (axis) => {
      if (zoom) return zoom[axis];
      const k = axis === "x" ? 0 : 1;
      const all = series.filter((s) => s.on).flatMap((s) => s.points.map((p) => p[k])).filter((v) => can(axis, v));
      let low = Math.min(...all), high = Math.max(...all);
      if (!all.length) [low, high] = scales[axis] === "log" ? [0.1, 1] : [0, 1];
      if (axis === "y" && scales.y === "log" && spec.y.floor) low = Math.max(low, spec.y.floor);
      if (scales[axis] === "log") {
        if (high / low < 1.02) [low, high] = [low / 1.1, high * 1.1];
        const pad = (high / low) ** 0.05;
        return [low / pad, high * pad];
      }
      if (high - low < 1e-12 * Math.max(Math.abs(low), Math.abs(high), 1e-300)) [low, high] = [low - 0.5, high + 0.5];
      const pad = 0.05 * (high - low);
      return [axis === "y" && low >= 0 && low - pad < 0 ? 0 : low - pad, high + pad];
    };
    const frame = () => {
      const forward = {}, back = {}, ends = {};
      for (const axis of ["x", "y"]) {
        const [low, high] = (ends[axis] = limits(axis));
        const log = scales[axis] === "log";
        const [a, b] = log ? [Math.log(low), Math.log(high)] : [low, high];
        forward[axis] = (v) => ((log ? Math.log(v) : v) - a) / (b - a);
        back[axis] = (f) => (log ? Math.exp(a + f * (b - a)) : a + f * (b - a));
      }
      return { forward, back, ends };
    };

    let look = null;
    function draw() {
      const width = Math.max(plot.clientWidth, 240);
      const height = Math.round(Math.min(Math.max(0.58 * width, 250), 400));
      const edge = { left: 62, right: 12, top: 10, bottom: 46 };
      const w = width - edge.left - edge.right, h = height - edge.top - edge.bottom;
      const map = frame();
      const X = (v) => edge.left + w * map.forward.x(v), Y = (v) => edge.top + h * (1 - map.forward.y(v));
      svg.replaceChildren();
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      const clip = make("clipPath", { id: `clip${serial}` }, svg);
      make("rect", { x: edge.left, y: edge.top, width: w, height: h }, clip);
      for (const axis of ["x", "y"]) {
        const [low, high] = map.ends[axis];
        const count = axis === "x" ? Math.max(2, Math.floor(w / 90)) : Math.max(2, Math.floor(h / 45));
        for (const v of (scales[axis] === "log" ? decades : steps)(low, high, count)) {
          if (axis === "x") make("path", { class: "grid", d: `M${X(v)},${edge.top}V${edge.top + h}` }, svg);
          else make("path", { class: "grid", d: `M${edge.left},${Y(v)}H${edge.left + w}` }, svg);
          const [base, raised] = scales[axis] === "log" ? power(v) : [shown(+v.toPrecision(10)), ""];
          const where = axis === "x" ? { x: X(v), y: edge.top + h + 17, "text-anchor": "middle" } : { x: edge.left - 7, y: Y(v) + 4, "text-anchor": "end" };
          const text = make("text", where, svg, base);
          if (raised) make("tspan", { dy: -5, "font-size": 9 }, text, raised);
        }
      }
      const label = width < 480 && spec.x.label.includes(" (") ? spec.x.label.split(" (")[0] : spec.x.label;
      make("text", { x: edge.left + w / 2, y: height - 8, "text-anchor": "middle" }, svg, label);
      make("text", { transform: `translate(13,${edge.top + h / 2}) rotate(-90)`, "text-anchor": "middle" }, svg, spec.y.label);
      make("path", { class: "frame", d: `M${edge.left},${edge.top}V${edge.top + h}H${edge.left + w}` }, svg);
      const inside = make("g", { "clip-path": `url(#clip${serial})` }, svg);
      const seen = [];
      for (const one of series.filter((s) => s.on)) {
        const g = make("g", { class: "c" + one.colour, "data-name": one.name }, inside);
        if (one.ticks) {
          const base = edge.top + h - 12 * one.row;
          for (const [x] of one.points) if (can("x", x)) {
            make("path", { class: "tick", d: `M${X(x)},${base - 2}v-9` }, g);
            seen.push([X(x), base - 6, one, x, null]);
          }
          continue;
        }
        const drawn = one.points.filter(([x, y]) => can("x", x) && can("y", y));
        if (!drawn.length) continue;
        const d = "M" + drawn.map(([x, y]) => `${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join("L");
        if (one.area) make("path", { class: "area", d: `${d}V${edge.top + h}H${X(drawn[0][0]).toFixed(1)}Z` }, g);
        make("path", { class: "line" + (one.dash ? " dash" : ""), d }, g);
        for (const [x, y] of drawn) {
          if (one.marks) make("circle", { class: "mark", cx: X(x), cy: Y(y), r: 3.2 }, g);
          seen.push([X(x), Y(y), one, x, y]);
        }
      }
      const lost = series.filter((s) => s.on && !s.ticks && !s.area).flatMap((s) => s.points).filter(([x, y]) => !can("x", x) || !can("y", y)).length;
      const pointer = make("g", {}, svg);
      look = { seen, pointer, edge, w, h, map };
      place = null;
      readout.textContent = lost ? `${lost} values that are not positive have no place on a logarithmic axis.` : "";
    }
    const tell = (n) => {
      const [x, y, one, a, b] = look.seen[n];
      place = n;
      look.pointer.replaceChildren();
      look.pointer.setAttribute("class", "c" + one.colour);
      make("circle", { class: "near", cx: x, cy: y, r: 5 }, look.pointer);
      const across = spec.x.label.split(" (")[0], up = spec.y.label.split(" / ").join(" over ");
      readout.textContent = b === null ? `${one.name}: ${shown(a)}` : `${one.name}: ${up} ${shown(b)} at ${across} ${shown(a)}`;
    };
    const spot = (event) => {
      const box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      return [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    };
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.pointerType !== "mouse" || event.button) return;
      from = spot(event);
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointermove", (event) => {
      const [x, y] = spot(event);
      if (from) {
        look.pointer.replaceChildren();
        make("rect", { class: "box", x: Math.min(x, from[0]), y: Math.min(y, from[1]), width: Math.abs(x - from[0]), height: Math.abs(y - from[1]) }, look.pointer);
        return;
      }
      let best = null, least = 900;
      look.seen.forEach(([a, b], n) => { const far = (a - x) ** 2 + (b - y) ** 2; if (far < least) [best, least] = [n, far]; });
      if (best !== null) tell(best);
      else { look.pointer.replaceChildren(); readout.textContent = ""; }
    });
    svg.addEventListener("pointerup", (event) => {
      if (!from) return;
      const to = spot(event), { edge, w, h, map } = look;
      const ends = [from, to].map(([x, y]) => [map.back.x((x - edge.left) / w), map.back.y(1 - (y - edge.top) / h)]);
      if (Math.abs(from[0] - to[0]) > 8 && Math.abs(from[1] - to[1]) > 8) {
        zoom = { x: ends.map((e) => e[0]).sort((a, b) => a - b), y: ends.map((e) => e[1]).sort((a, b) => a - b) };
        draw();
      }
      from = null;
    });
    svg.addEventListener("pointercancel", () => { from = null; });
    svg.addEventListener("pointerleave", () => { if (!from) { look.pointer.replaceChildren(); readout.textContent = ""; } });
    svg.addEventListener("dblclick", () => { zoom = null; draw(); });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const other = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!look.seen.length || (!step && !other)) return;
      event.preventDefault();
      const total = look.seen.length;
      if (place === null) return tell(0);
      let n = place;
      if (step) n = (place + step + total) % total;
      else while ((n = (n + other + total) % total) !== place && look.seen[n][2] === look.seen[place][2]);
      tell(n);
    });
    redrawn(plot, draw);
  });

  // --- print: proofs and tables are opened, and closed again

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const node of closed) node.open = true;
  });
  addEventListener("afterprint", () => { for (const node of closed) node.open = false; });
})();
