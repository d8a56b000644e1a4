// Polls the state of a release until it is computed.
const state = document.getElementById("state");
if (state !== null) {
  const poll = async () => {
    const answer = await fetch(state.dataset.poll).catch(() => null);
    if (answer?.redirected) return location.reload(); // signed out
    const found = answer?.ok ? await answer.json() : {state: "computing"};
    if (found.state === "computing") setTimeout(poll, 1500);
    else location.reload();
  };
  setTimeout(poll, 1000);
}
