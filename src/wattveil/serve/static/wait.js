// A release that is being computed: look again until it is there.
const state = document.getElementById("state");
if (state !== null) {
  const look = async () => {
    const answer = await fetch(state.dataset.look).catch(() => null);
    if (answer?.redirected) return location.reload(); // signed out: to the door
    const said = answer?.ok ? await answer.json() : {state: "computing"};
    if (said.state === "computing") setTimeout(look, 1500);
    else location.reload();
  };
  setTimeout(look, 1000);
}
