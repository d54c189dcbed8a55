// Formulas of a page, by katex.min.js. An error is shown in its place, for the checks to find.
for (const formula of document.querySelectorAll(".math")) {
  const displayMode = formula.classList.contains("display");
  katex.render(formula.textContent, formula, { displayMode, throwOnError: false });
}
