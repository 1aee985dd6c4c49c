// Examines a page. Returns an object with lists of faults and with counts.
(() => {
  const faults = [];
  const say = (what, where) => faults.push(`${what}: ${where}`);
  const numbers = colour => { const all = colour.match(/[\d.]+/g).map(Number); return all.length > 3 ? all : [...all, 1]; };
  const luminance = ([r, g, b]) => {
    const part = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const contrast = (one, other) => {
    const [a, b] = [luminance(one) + 0.05, luminance(other) + 0.05];
    return Math.max(a, b) / Math.min(a, b);
  };
  const ground = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour[3] > 0) return colour;
    }
    return [255, 255, 255, 1];
  };

  let texts = 0, least = 99;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || ["title", "desc", "style", "script"].includes(element.localName)) continue;
    if (element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    const svg = element instanceof SVGElement;
    const ratio = contrast(numbers(svg ? style.fill : style.color), ground(element));
    texts += 1;
    least = Math.min(least, ratio);
    if (ratio < 4.5) say(`contrast ${ratio.toFixed(2)}`, node.data.trim());
    const size = parseFloat(style.fontSize) * (svg ? element.getScreenCTM().a : 1);
    if (size < 8.5) say(`text of ${size.toFixed(1)} px`, node.data.trim());
  }

  const wide = document.documentElement;
  if (wide.scrollWidth > wide.clientWidth) {
    say("scrolls sideways", `${wide.scrollWidth} of ${wide.clientWidth}`);
    for (const element of document.querySelectorAll("body *")) {
      const box = element.getBoundingClientRect();
      if (box.right > wide.clientWidth + 1 && !element.closest(".scroll")) say("sticks out", element.outerHTML.slice(0, 120));
    }
  }

  const plots = [...document.querySelectorAll("svg")];
  for (const plot of plots) {
    const box = plot.getBoundingClientRect(), name = plot.querySelector("title")?.textContent;
    if (!name || !plot.querySelector("desc")?.textContent) say("no title or description", plot.outerHTML.slice(0, 120));
    if (plot.getAttribute("role") !== "img") say("no image", name);
    for (const id of plot.getAttribute("aria-labelledby").split(" ")) {
      if (!plot.contains(document.getElementById(id))) say("label elsewhere", `${name}: ${id}`);
    }
    if (box.width < 200 || box.height < 60) say(`${box.width} × ${box.height}`, name);
    const room = plot.viewBox.baseVal;
    const boxes = [...plot.querySelectorAll("text")].map(text => [text.textContent.trim(), text.getBBox()]);
    for (const [text, b] of boxes) {
      if (b.x < -1 || b.y < -1 || b.x + b.width > room.width + 1 || b.y + b.height > room.height + 1) {
        say("text sticks out of a plot", `${name}: ${text}`);
      }
    }
    for (let i = 0; i < boxes.length; i++) for (let j = 0; j < i; j++) {
      const [[one, a], [other, b]] = [boxes[i], boxes[j]];
      const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
      const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
      if (across > 1 && down > 4) say("text over text", `${name}: ${one} / ${other}`);
    }
    for (const shape of plot.querySelectorAll("circle, polyline, polygon, rect, line")) {
      for (const name of ["points", "cx", "cy", "x", "y", "x1", "y1", "width", "height"]) {
        if (/NaN|inf/.test(shape.getAttribute(name) ?? "")) say("no number", shape.outerHTML);
      }
    }
  }

  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4")) {
    const now = Number(heading.localName[1]);
    if (now > level + 1) say("heading skips a level", heading.textContent);
    level = now;
  }
  for (const cell of document.querySelectorAll("th")) if (!cell.scope) say("heading of a table without scope", cell.textContent);
  for (const table of document.querySelectorAll("table")) if (!table.caption) say("table without caption", table.textContent.slice(0, 60));
  const ids = [...document.querySelectorAll("[id]")].map(element => element.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) say("id twice", id);
  for (const link of document.querySelectorAll("a")) {
    if (!document.getElementById(link.hash.slice(1))) say("link to nowhere", link.href);
  }
  if (document.querySelector("script, iframe, img, object, link[rel=stylesheet]")) say("not self-contained", "");
  return {
    faults: [...new Set(faults)].slice(0, 40), texts, least, plots: plots.length,
    tables: document.querySelectorAll("table").length,
    sections: [...document.querySelectorAll("section.result")].map(section => section.id),
    background: numbers(getComputedStyle(document.documentElement).backgroundColor),
  };
})()
