const field = document.getElementById("filter");
if (field) {
  const rows = document.querySelectorAll("#instructions tbody tr");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    rows.forEach((row) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
  });
}
