/// Defines an enum whose values have names, and the method that gives the name: `enum Level(name) { High = "high" }`.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $enum:ident($name:ident) { $($(#[$value_meta:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        $vis enum $enum {
            $($(#[$value_meta])* $value,)*
        }

        impl $enum {
            $vis const fn $name(self) -> &'static str {
                match self {
                    $($enum::$value => $text,)*
                }
            }
        }
    };
}
