//! Sets of kinds whose objects are watched, recorded and set alike.

/// Defines such a set and the object of any of its kinds, from the type and the resource of each.
macro_rules! object_kinds {
    ($(#[$meta:meta])* $kinds:ident, $objects:ident { $($kind:ident($type:ty) = $resource:ident,)* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum $kinds {
            $($kind,)*
        }

        impl $kinds {
            pub const ALL: [$kinds; [$($kinds::$kind),*].len()] = [$($kinds::$kind),*];

            /// The resource that objects of this kind belong to.
            pub fn resource(self) -> $crate::resource::Resource {
                match self {
                    $($kinds::$kind => $crate::resource::$resource,)*
                }
            }
        }

        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        pub enum $objects {
            $($kind($type),)*
        }

        impl $objects {
            pub fn kind(&self) -> $kinds {
                match self {
                    $($objects::$kind(_) => $kinds::$kind,)*
                }
            }

            pub fn metadata(&self) -> &$crate::object::ObjectMeta {
                match self {
                    $($objects::$kind(object) => &object.metadata,)*
                }
            }

            pub fn metadata_mut(&mut self) -> &mut $crate::object::ObjectMeta {
                match self {
                    $($objects::$kind(object) => &mut object.metadata,)*
                }
            }
        }
    };
}
pub(super) use object_kinds;
