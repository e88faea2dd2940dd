//! What a store of a test does not change.

/// Methods of an `ObjectStore` that hand everything on to the one in a field: `through!(objects: get, delete);`.
macro_rules! through {
    ($field:tt: $($method:ident),+) => { $(through!(@ $field $method);)+ };
    (@ $field:tt put_new) => {
        fn put_new(
            &self,
            name: &str,
            bytes: &[u8],
        ) -> Result<atrest_sealedvolume::store::Put, atrest_sealedvolume::store::StoreError> {
            self.$field.put_new(name, bytes)
        }
    };
    (@ $field:tt put) => {
        fn put(&self, name: &str, bytes: &[u8]) -> Result<(), atrest_sealedvolume::store::StoreError> {
            self.$field.put(name, bytes)
        }
    };
    (@ $field:tt get) => {
        fn get(
            &self,
            name: &str,
            most: usize,
        ) -> Result<Option<Vec<u8>>, atrest_sealedvolume::store::StoreError> {
            self.$field.get(name, most)
        }
    };
    (@ $field:tt get_range) => {
        fn get_range(
            &self,
            name: &str,
            offset: u64,
            len: usize,
        ) -> Result<Option<Vec<u8>>, atrest_sealedvolume::store::StoreError> {
            self.$field.get_range(name, offset, len)
        }
    };
    (@ $field:tt list_after) => {
        fn list_after(
            &self,
            kind: atrest_sealedvolume::format::Kind,
            after: Option<&str>,
        ) -> Result<Vec<String>, atrest_sealedvolume::store::StoreError> {
            self.$field.list_after(kind, after)
        }
    };
    (@ $field:tt delete) => {
        fn delete(&self, name: &str) -> Result<(), atrest_sealedvolume::store::StoreError> {
            self.$field.delete(name)
        }
    };
}
pub(crate) use through;
