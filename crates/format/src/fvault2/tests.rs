use alloc::vec::Vec;

use super::plist::values;

#[test]
fn values_stand_behind_their_keys_or_where_they_are_referred_to() {
    let text = "<dict><key>a</key> <string ID=\"1\">one</string><key>b</key><string IDREF=\"1\"/>\
                <key>r</key><reference IDREF=\"1\"/><key>r</key><reference/><key>r</key><reference>no</reference>\
                <key>a</key><data>\n\tAAAA\n</data><key>a</key><string/><key>aa</key><string>no</string>\
                <key>a</key><string>two</string><key>c</key><string IDREF=\"7\"/><key>d</key><string>open";
    let all = |key, kind| values(text, key, kind).collect::<Vec<_>>();
    assert_eq!(all("a", "string"), ["one", "two"]);
    assert_eq!(all("a", "data"), ["AAAA"]);
    assert_eq!(all("b", "string"), ["one"]);
    assert_eq!(all("r", "string"), ["one"]);
    assert!(all("r", "data").is_empty());
    let many = alloc::format!("<i ID=\"1\">x</i>{}", "<key>a</key><reference IDREF=\"1\"/>".repeat(50));
    assert_eq!(values(&many, "a", "i").count(), 32);
    for nothing in ["c", "d", "e"] {
        assert!(all(nothing, "string").is_empty());
    }
}
