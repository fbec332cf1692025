"use strict";
// The table of episodes: only the rows in sight are in the document. All texts are set as text, never as markup.
(() => {
  const source = document.getElementById("episode-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const columns = data.columns, total = data.count, ROW = 32, AROUND = 12;
  const area = document.getElementById("episode-rows"), told = document.getElementById("episode-count");
  const search = document.getElementById("episode-search"), dialog = document.getElementById("episode");
  document.getElementById("episode-table").hidden = false;

  const make = (name, attributes = {}, ...inside) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...inside);
    return element;
  };
  const svg = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  };
  const value = (column, row) => (column.values ? column.values[column.rows[row]] : column.rows[row]);
  const text = (column, row) => { const found = value(column, row); return found === null ? "" : String(found); };
  const by = Object.fromEntries(columns.map((column) => [column.name, column]));
  const shown = columns.filter((column) => !column.hidden);
  const rowOf = new Map(data.anchors.map((anchor, row) => [`episode-${anchor}`, row]));

  // Which rows: words in any column, and a condition a column.
  const conditions = new Map();
  let rows = [], order = null, lower = null;
  const lowered = () => lower ??= Array.from({ length: total }, (_, row) =>
    columns.map((column) => text(column, row)).join("\u0001").toLowerCase());
  const test = (column, wanted) => {
    const compare = /^(<=|>=|<|>|=)\s*(.*)$/.exec(wanted);
    const number = compare ? Number(compare[2]) : NaN;
    if (compare && compare[2] !== "" && !column.values && !Number.isNaN(number)) {
      const how = { "<": (a) => a < number, ">": (a) => a > number, "<=": (a) => a <= number, ">=": (a) => a >= number,
        "=": (a) => a === number }[compare[1]];
      return (row) => { const found = value(column, row); return found !== null && how(found); };
    }
    const low = wanted.toLowerCase();
    if (compare && compare[1] === "=") return (row) => text(column, row).toLowerCase() === compare[2].toLowerCase();
    if (!column.values) return (row) => text(column, row).includes(low);
    // Of a text that many rows have it is found out once.
    const fits = column.values.map((each) => String(each ?? "").toLowerCase().includes(low));
    return (row) => fits[column.rows[row]];
  };
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = [...conditions].map(([column, wanted]) => test(column, wanted));
    rows = [];
    for (let row = 0; row < total; row++)
      if (tests.every((fits) => fits(row)) && words.every((word) => lowered()[row].includes(word))) rows.push(row);
    if (order) {
      const { column, down } = order, sign = down ? -1 : 1;
      rows.sort((a, b) => {
        const one = value(column, a), other = value(column, b);
        if (one === null || other === null) return (one === null) - (other === null) || a - b;
        return sign * (one < other ? -1 : one > other ? 1 : 0) || a - b;
      });
    }
    told.textContent = `${rows.length.toLocaleString("en")} of ${total.toLocaleString("en")} episodes`;
    area.scrollTop = 0;
    body.replaceChildren();
    from = to = -1;
    draw();
  };

  const table = make("table", { "aria-rowcount": total + 1 });
  table.append(make("caption", {}, "Every episode that was recorded"));
  const titles = make("tr"), inputs = make("tr"), head = make("thead", {}, titles, inputs);
  for (const column of shown) {
    const button = make("button", { type: "button", title: `Sort by ${column.label}` }, column.label);
    const title = make("th", { scope: "col" }, button);
    button.addEventListener("click", () => {
      order = order && order.column === column ? (order.down ? null : { column, down: true }) : { column, down: false };
      for (const each of titles.children) each.removeAttribute("aria-sort");
      if (order) title.setAttribute("aria-sort", order.down ? "descending" : "ascending");
      filter();
    });
    titles.append(title);
    const input = make("input", { type: "search", "aria-label": `Filter ${column.label}`, autocomplete: "off" });
    if (column.values && column.values.length <= 60 && column.values.length > 1) {
      const id = `values-of-${column.name}`;
      input.setAttribute("list", id);
      document.getElementById("episode-table").append(make("datalist", { id },
        ...column.values.filter(Boolean).map((each) => make("option", { value: each }))));
    }
    input.addEventListener("input", () => {
      if (input.value) conditions.set(column, input.value); else conditions.delete(column);
      filter();
    });
    inputs.append(make("td", {}, input));
  }
  const body = make("tbody");
  table.append(head, body);
  area.append(table);

  let from = -1, to = -1;
  const line = (row, place) => {
    const cells = shown.map((column, number) => {
      const said = text(column, row);
      if (number === 0) {
        const link = make("a", { href: `#episode-${data.anchors[row]}` }, said);
        return make("th", { scope: "row", title: said, id: `episode-${data.anchors[row]}` }, link);
      }
      const cell = make("td", { title: said }, said);
      if (!column.values) cell.className = "n";
      if (column.name === "outcome") cell.className = { success: "good", invalid: "plain" }[said] ?? "bad";
      return cell;
    });
    return make("tr", { class: "row", "aria-rowindex": place + 2 }, ...cells);
  };
  const space = (number) => {
    const row = make("tr", { class: "space", "aria-hidden": "true" }, make("td", { colspan: shown.length }));
    row.firstChild.style.height = `${number * ROW}px`;
    return row;
  };
  const fill = (first, last) => {
    const focused = document.activeElement && body.contains(document.activeElement) ? document.activeElement.hash : "";
    body.replaceChildren();
    if (first) body.append(space(first));
    for (let place = first; place < last; place++) body.append(line(rows[place], place));
    if (last < rows.length) body.append(space(rows.length - last));
    if (focused) body.querySelector(`a[href="${focused}"]`)?.focus({ preventScroll: true });
  };
  const draw = () => {
    const first = Math.max(Math.floor(area.scrollTop / ROW) - AROUND, 0);
    const last = Math.min(first + Math.ceil((area.clientHeight || 600) / ROW) + 2 * AROUND, rows.length);
    if (first === from && last === to) return;
    [from, to] = [first, last];
    fill(first, last);
  };
  area.addEventListener("scroll", () => requestAnimationFrame(draw));
  addEventListener("resize", draw);
  addEventListener("beforeprint", () => {
    const most = Math.min(rows.length, 500);
    fill(0, most);
    document.getElementById("episode-printed").textContent = most < rows.length
      ? `Printed are the first ${most} of ${rows.length.toLocaleString("en")} rows that were found, of ${total.toLocaleString("en")} episodes.`
      : `Printed are ${rows.length.toLocaleString("en")} of ${total.toLocaleString("en")} episodes.`;
  });
  addEventListener("afterprint", () => { from = to = -1; draw(); });
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(filter, 80); });
  document.getElementById("episode-filter").addEventListener("submit", (event) => { event.preventDefault(); filter(); });
  document.getElementById("episode-clear").addEventListener("click", () => {
    search.value = "";
    conditions.clear();
    for (const input of inputs.querySelectorAll("input")) input.value = "";
    filter();
  });

  // One episode.
  const heldBar = (literal, changes, steps) => {
    const bar = svg("svg", { class: "held", viewBox: "0 0 400 14", preserveAspectRatio: "none", role: "img",
      "aria-label": `${literal}: ${changes.map(([step, held]) => `${held ? "holds" : "does not hold"} from step ${step}`).join(", ")}` });
    changes.forEach(([step, held], place) => {
      const end = place + 1 < changes.length ? changes[place + 1][0] : Math.max(steps, 1);
      const x = (400 * step) / Math.max(steps, 1), width = Math.max((400 * (end - step)) / Math.max(steps, 1), held ? 3 : 0);
      bar.append(svg("rect", { class: held ? "yes" : "no", x: Math.min(x, 397), y: 1, width, height: 12 }));
    });
    return bar;
  };
  const small = (caption, titles, lines) => make("table", {}, make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...titles.map((title) => make("th", { scope: "col" }, title)))),
    make("tbody", {}, ...lines.map((cells) => make("tr", {}, ...cells.map((cell, place) =>
      place ? make("td", {}, cell === null ? "" : String(cell)) : make("th", { scope: "row" }, String(cell)))))));
  // Pictures and the video of an episode, and beside them those of its benign twin: both videos have one control.
  const shots = (media, video) => make("div", { class: "shots" }, ...(media?.pictures ?? []).map((picture) =>
    make("figure", {}, make("img", { src: picture.src, alt: picture.label }), make("figcaption", {}, picture.label))),
    ...(media?.video ? [make("figure", {}, video ?? film(media, true), make("figcaption", {}, "video"))] : []));
  const film = (media, alone) => {
    const video = make("video", { src: media.video, preload: "metadata", playsinline: "", "aria-label": "Video of the episode" });
    video.muted = true;
    video.controls = alone;
    return video;
  };
  const besideTwin = (row, twin, media) => {
    const other = data.media[twin], link = make("a", { href: `#episode-${data.anchors[twin]}` }, "Benign twin");
    const ended = (each) => `${text(by.outcome, each)} after ${text(by.steps, each)} steps`;
    const videos = media?.video && other?.video ? [film(media, false), film(other, false)] : [];
    const parts = [make("div", { class: "twins" },
      make("section", { "aria-label": "This episode" }, make("h4", {}, "This episode"), make("p", { class: "hint" }, ended(row)), shots(media, videos[0])),
      make("section", { "aria-label": "Benign twin" }, make("h4", {}, link), make("p", { class: "hint" }, ended(twin)), shots(other, videos[1])))];
    if (videos.length) parts.push(together(videos));
    return make("div", {}, ...parts);
  };
  const together = (videos) => {
    const last = () => Math.max(...videos.map((each) => each.duration || 0)), STEP = 0.05;
    const play = make("button", { type: "button" }, "Play both"), told = make("output");
    const bar = make("input", { type: "range", min: 0, max: 1, step: STEP, value: 0, "aria-label": "Time in both videos, s" });
    let now = 0, running = false;
    const show = () => { bar.value = now; told.textContent = `${now.toFixed(1)} of ${last().toFixed(1)} s`; };
    const put = () => { for (const each of videos) each.currentTime = Math.min(now, each.duration || 0); };
    const stop = () => { running = false; play.textContent = "Play both"; for (const each of videos) each.pause(); };
    const tick = () => {
      if (!running || !play.isConnected) return;
      // The longest leads; one that is late by more than two frames is put right, and one that is over waits at its end.
      const leader = videos.reduce((a, b) => (b.duration > a.duration ? b : a));
      now = leader.currentTime;
      for (const each of videos) if (!each.ended && Math.abs(each.currentTime - Math.min(now, each.duration)) > 0.15) each.currentTime = Math.min(now, each.duration);
      show();
      if (leader.ended) { now = last(); show(); stop(); } else requestAnimationFrame(tick);
    };
    play.addEventListener("click", () => {
      if (running) return stop();
      if (now >= last() - STEP) { now = 0; put(); }
      running = true;
      play.textContent = "Pause both";
      for (const each of videos) if (now < each.duration) each.play().catch(stop);
      requestAnimationFrame(tick);
    });
    bar.addEventListener("input", () => { stop(); now = Number(bar.value); put(); show(); });
    for (const each of videos) each.addEventListener("loadedmetadata", () => { bar.max = Math.max(last(), STEP); show(); });
    return make("div", { class: "together", role: "group", "aria-label": "Both videos" }, play, bar, told);
  };
  const looks = ({ camera, src, floor, changes }, top) => {
    const most = Math.max(...changes.flat()), side = 256 / changes.length, span = Math.max(top - floor, 1e-12);
    const [row, column] = changes.flatMap((line, y) => line.map((each, x) => [y, x, each])).reduce((a, b) => (b[2] > a[2] ? b : a));
    const told = `${camera}: covering a patch moves the answer by ${most} at most, in row ${row + 1} and column ${column + 1} of ${changes.length}; asking again, by ${floor}`;
    const map = svg("svg", { class: "looks", viewBox: "0 0 256 256", role: "img", "aria-label": told });
    map.append(svg("image", { href: src, width: 256, height: 256, preserveAspectRatio: "none" }));
    changes.forEach((line, y) => line.forEach((each, x) => {
      if (each <= floor) return;
      const patch = svg("rect", { x: x * side, y: y * side, width: side, height: side, fill: "#d40000", "fill-opacity": (0.8 * (each - floor) / span).toFixed(3) });
      const title = svg("title", {});
      title.textContent = String(each);
      patch.append(title);
      map.append(patch);
    }));
    if (most > floor && most === top) map.append(svg("rect", { x: column * side + 1, y: row * side + 1, width: side - 2, height: side - 2, fill: "none", stroke: "#fff", "stroke-width": 2 }));
    return make("figure", {}, map, make("figcaption", {}, `${camera}: ${most} at most${most > floor && most === top ? " (framed)" : ""}; asked again ${floor}`));
  };
  const open = (row) => {
    const about = make("dl"), numbers = make("dl"), steps = value(by.steps, row) ?? 0;
    for (const column of columns) {
      const said = text(column, row), list = column.name.startsWith("metric-") ? numbers : about;
      if (said !== "") list.append(make("dt", {}, column.label), make("dd", {}, make("bdi", {}, said)));
    }
    const close = make("button", { type: "button" }, "Close");
    close.addEventListener("click", () => dialog.close());
    const name = [text(by.task, row), by.variation ? text(by.variation, row) : "", `seed ${text(by.seed, row)}`];
    const heading = make("h3", { id: "episode-title" }, name.filter(Boolean).join(", "));
    const parts = [make("div", { class: "top" }, heading, close)];
    const media = data.media[row], twin = data.twins[row];
    parts.push(twin === undefined ? shots(media) : besideTwin(row, twin, media));
    parts.push(about);
    const command = data.commands[row];
    if (command) {
      const [before, after] = data.recipes[command[0]], whole = before + command[1] + after;
      const copy = make("button", { type: "button" }, "Copy");
      copy.addEventListener("click", () => navigator.clipboard?.writeText(whole));
      parts.push(make("h4", {}, "Run it again"), make("p", {}, make("code", {}, whole), " ", copy));
    }
    const literals = data.literals[row] ?? [];
    if (literals.length) {
      parts.push(make("h4", {}, "The goal over time"), make("dl", {}, ...literals.flatMap(([name, changes]) => [
        make("dt", {}, make("code", {}, data.names[name])),
        make("dd", {}, heldBar(data.names[name], changes, steps))])));
    }
    if (media?.looks) {
      parts.push(make("h4", {}, "Where the policy looks"), make("div", { class: "shots" }, ...media.looks.map((each) => looks(each, Math.max(...media.looks.flatMap((one) => one.changes.flat()))))),
        make("p", { class: "hint" }, "How far its first answer moves when a patch is covered in grey, with the same noise: the more, the redder, on one scale for all pictures. A patch that moves it less than asking again does has no colour."));
    }
    const charged = data.costs[row] ?? [];
    if (charged.length) {
      parts.push(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Costs" },
        small("What it was charged", ["what", "account", "cost", "steps", "by", "force, N"],
          charged.map(([name, account, ...rest]) => [data.names[name], data.names[account], ...rest]))));
    }
    if (media && media.paths) parts.push(make("h4", {}, "Paths"), paths(media.paths));
    if (numbers.childElementCount) parts.push(make("details", {}, make("summary", {}, "Further numbers"), numbers));
    dialog.replaceChildren(...parts);
    dialog.setAttribute("aria-labelledby", "episode-title");
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    close.focus();
  };
  dialog.addEventListener("close", () => {
    const link = body.querySelector(`a[href="${location.hash}"]`);
    if (rowOf.has(location.hash.slice(1))) history.replaceState(null, "", "#episodes");
    link?.focus();
  });

  // Paths of the hand and of objects, m: drawn when the episode is opened, turned by pointer and arrow keys.
  const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
  const DASHES = [[], [6, 3], [2, 3], [8, 3, 2, 3], [12, 4], [4, 4]];
  const length = (points) => points.reduce((sum, point, place) => place
    ? sum + Math.hypot(...point.map((x, axis) => x - points[place - 1][axis])) : 0, 0);
  const legend = (found) => make("ul", { class: "legend" }, ...found.map((each, place) => {
    const line = svg("svg", { viewBox: "0 0 36 12", "aria-hidden": "true" }), colour = PALETTE[place % PALETTE.length];
    line.append(svg("line", { x1: 4, y1: 6, x2: 32, y2: 6, stroke: colour, "stroke-width": 2, "stroke-dasharray": DASHES[place % DASHES.length].join(" ") }),
      svg("rect", { x: 1, y: 3, width: 6, height: 6, fill: "none", stroke: colour, "stroke-width": 1.5 }), svg("circle", { cx: 32, cy: 6, r: 3.5, fill: colour }));
    return make("li", {}, line, ` ${each.name}, ${length(each.points).toFixed(2)} m`);
  }), make("li", { class: "hint" }, "square: start, dot: end; arrow keys or a pointer turn it"));
  const paths = (found) => {
    const canvas = make("canvas", { width: 480, height: 360, tabindex: "0", role: "img",
      "aria-label": `Paths in space: ${found.map((each) => `${each.name} from ${each.points[0].join(", ")} to ${each.points[each.points.length - 1].join(", ")} m`).join("; ")}. Arrow keys turn them` });
    const all = found.flatMap((each) => each.points), middle = [0, 1, 2].map((axis) =>
      (Math.min(...all.map((p) => p[axis])) + Math.max(...all.map((p) => p[axis]))) / 2);
    const size = Math.max(...all.map((p) => Math.hypot(...p.map((x, axis) => x - middle[axis]))), 1e-3);
    let turn = 0.6, tilt = 0.5;
    const at = (point) => {
      const [x, y, z] = point.map((each, axis) => ((each - middle[axis]) / size) * 165);
      const a = x * Math.cos(turn) - y * Math.sin(turn), b = x * Math.sin(turn) + y * Math.cos(turn);
      return [240 + a, 180 + b * Math.sin(tilt) - z * Math.cos(tilt)];
    };
    const paint = () => {
      const pen = canvas.getContext("2d");
      pen.clearRect(0, 0, 480, 360);
      pen.font = "12px sans-serif";
      found.forEach((each, place) => {
        pen.strokeStyle = pen.fillStyle = PALETTE[place % PALETTE.length];
        pen.lineWidth = place ? 1.8 : 2.5;
        pen.setLineDash(DASHES[place % DASHES.length]);
        pen.beginPath();
        each.points.forEach((point, number) => pen[number ? "lineTo" : "moveTo"](...at(point)));
        pen.stroke();
        pen.setLineDash([]);
        const [left, top] = at(each.points[0]), [x, y] = at(each.points[each.points.length - 1]);
        pen.strokeRect(left - 4, top - 4, 8, 8);
        pen.beginPath();
        pen.arc(x, y, 4, 0, 7);
        pen.fill();
        pen.fillText(each.name, x + 7 + pen.measureText(each.name).width > 478 ? x - 7 - pen.measureText(each.name).width : x + 7, y + 4);
      });
    };
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = [event.clientX, event.clientY]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => {
      if (!held) return;
      turn += (event.clientX - held[0]) / 120;
      tilt = Math.min(Math.max(tilt + (event.clientY - held[1]) / 120, 0), 1.57);
      held = [event.clientX, event.clientY];
      paint();
    });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("keydown", (event) => {
      const moved = { ArrowLeft: [-0.15, 0], ArrowRight: [0.15, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
      if (!moved) return;
      event.preventDefault();
      turn += moved[0];
      tilt = Math.min(Math.max(tilt + moved[1], 0), 1.57);
      paint();
    });
    paint();
    return make("div", {}, canvas, legend(found));
  };

  const follow = () => { const row = rowOf.get(location.hash.slice(1)); if (row !== undefined) open(row); };
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    // The same link twice changes no hash.
    const link = event.target.closest?.("a[href^='#episode-']");
    if (link && link.hash === location.hash) follow();
  });
  filter();
  follow();
})();
