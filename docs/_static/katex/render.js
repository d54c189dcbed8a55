// Formulas of a page, by katex.min.js. An error is shown in its place, for the checks to find.
// A formula in a line that is wider than the line gets the class "wide" (skdp.css).
for (const formula of document.querySelectorAll(".math")) {
  const displayMode = formula.classList.contains("display");
  katex.render(formula.textContent, formula, { displayMode, throwOnError: false });
  const parts = formula.querySelectorAll(".base");
  const width = Math.max(0, ...[...parts].map((part) => part.getBoundingClientRect().width));
  if (!displayMode && width > formula.parentElement.clientWidth) formula.classList.add("wide");
}
