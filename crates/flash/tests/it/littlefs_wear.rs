//! littlefs on an encrypted device programs and erases what it does on the medium alone.

use crate::littlefs::{
    Adiantum, BareSmall, BareWide, CbcErased, Rig, Tree, Xts, XtsErased, formatted, play, read_all, suite,
};
use atrest_testkit::flash::Wear;

/// The suite from formatting on: what it did to the medium, and how many changes met a full one.
fn worn<R: Rig>() -> (Wear, usize) {
    let medium = formatted::<R>();
    let played = play::<R>(&medium, Tree::new(), &suite(R::medium().size() as usize));
    let image = medium.lock().image().clone();
    let found = read_all::<R>(&image).expect("mount again");
    assert_eq!(Some(&found), played.states.last(), "everything is there");
    let wear = medium.lock().wear().clone();
    (wear, played.refused)
}

fn totals(wear: &Wear) -> (u64, u64) {
    (wear.programmed_units(), wear.erased_blocks())
}

#[test]
fn programmed_units_and_erases_are_those_of_the_medium_alone() {
    let (small, refused) = worn::<BareSmall>();
    let (wide, wide_refused) = worn::<BareWide>();
    assert!(refused > 0 && wide_refused > 0, "the suite fills the medium");
    println!("suite, prog size 16: {:?} programs and erases, {refused} refused", totals(&small));
    println!("suite, prog size 512: {:?} programs and erases, {wide_refused} refused", totals(&wide));
    assert!(totals(&small).0 > 1000 && totals(&small).1 > 100, "the suite works the medium");
    assert_eq!(totals(&worn::<Xts>().0), totals(&small), "AES-XTS");
    assert_eq!(totals(&worn::<Adiantum>().0), totals(&wide), "Adiantum");

    // Blank units that read as on the medium alone leave littlefs no reason to do anything elsewhere.
    let same = |wear: Wear, alone: &Wear| {
        assert_eq!((wear.programs, wear.erases), (alone.programs.clone(), alone.erases.clone()));
    };
    same(worn::<XtsErased>().0, &small);
    same(worn::<CbcErased>().0, &wide);
}
