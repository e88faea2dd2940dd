//! Every block of the medium gone bad in each way: littlefs meets on an encrypted device what it meets on the medium alone.

use crate::littlefs::{
    BareSmall, Rig, Tree, Xts, XtsErased, formatted, play_on, read_all_on, storage, suite,
};
use atrest_testkit::Campaign;
use atrest_testkit::flash::BadBlock;

/// How far the suite came, with what error, and what is found afterwards.
type Outcome = (usize, Result<(), i32>, Result<Tree, i32>);

fn outcome<R: Rig>(block: usize, how: BadBlock) -> Outcome {
    let medium = formatted::<R>();
    medium.lock().break_block(block, how);
    let changes = suite(R::medium().size() as usize);
    let (played, result) = play_on(&mut storage::<R>(&medium), Tree::new(), &changes, |_| {});
    let found = read_all_on(&mut storage::<R>(&medium));
    if let (Ok(()), Ok(found)) = (result, &found) {
        assert_eq!(Some(found), played.states.last(), "block {block}, {how:?}: wrong data");
    }
    (played.states.len() - 1, result.map_err(|error| error.code()), found.map_err(|error| error.code()))
}

#[test]
fn a_bad_block_is_met_as_on_the_medium_alone_and_never_gives_wrong_data() {
    let blocks = BareSmall::medium().block_count() as usize;
    let cases: Vec<(usize, BadBlock)> =
        (0..blocks).flat_map(|block| BadBlock::ALL.map(|how| (block, how))).collect();
    let mut survived = 0;
    Campaign::matrix("flash bad blocks", 80).over(&cases, |&(block, how)| {
        let alone = outcome::<BareSmall>(block, how);
        survived += usize::from(alone.1.is_ok());
        assert_eq!(outcome::<XtsErased>(block, how), alone, "block {block}, {how:?}");
        let encrypted = outcome::<Xts>(block, how);
        assert_eq!(encrypted.1, alone.1, "block {block}, {how:?}, garbage in blank units");
    });
    println!("{survived} suites ran to their end");
}
