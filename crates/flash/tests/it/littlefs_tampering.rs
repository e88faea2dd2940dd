//! What THREAT-MODEL.md says that encryption alone does not detect, carried out.

use crate::littlefs::{Played, Rig, Tree, Xts, formatted, play, read_all, suite};
use atrest_testkit::flash::{Adversary, Attack, FlashRecording};
use atrest_testkit::{Campaign, Random};

fn recorded() -> (Played, FlashRecording) {
    let medium = formatted::<Xts>();
    medium.lock().record();
    let played = play::<Xts>(&medium, Tree::new(), &suite(Xts::medium().size() as usize));
    let recording = medium.lock().finish_recording();
    (played, recording)
}

#[test]
fn the_whole_medium_of_an_earlier_time_is_accepted() {
    let (played, recording) = recorded();
    let adversary = Adversary::new(&recording);
    let mut image = recording.images().last().expect("an image").clone();
    assert!(adversary.attack(&mut image, Attack::ReplayImage { step: recording.len() / 2 }));
    let found = read_all::<Xts>(&image).expect("nothing is noticed");
    assert!(played.states.contains(&found) && Some(&found) != played.states.last());
}

#[test]
fn changed_file_contents_are_returned_as_data() {
    let (played, recording) = recorded();
    let adversary = Adversary::new(&recording);
    let last = played.states.last().expect("a state");
    let mut outcomes = [0_u32; 4];
    Campaign::new("flash tampering, AES-XTS", 1000, 100_000).run(|_, random: &mut Random| {
        let mut image = recording.images().last().expect("an image").clone();
        let attack = adversary.draw(random);
        let changed = adversary.attack(&mut image, attack);
        let outcome = match read_all::<Xts>(&image) {
            _ if !changed => 0,
            Err(_) => 1,
            Ok(found) if found == *last => 2,
            Ok(_) => 3,
        };
        outcomes[outcome] += 1;
    });
    let [nothing, detected, harmless, undetected] = outcomes;
    println!(
        "attacks: {nothing} changed nothing, {detected} detected, {harmless} harmless, {undetected} undetected and harmful"
    );
    let attacks = nothing + detected + harmless + undetected;
    assert!(attacks == 1 || undetected > attacks / 20, "encryption alone detects nothing: {undetected}");
}
